"""Lays out what the groups of a hang did around it."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice

from oncall.flight_recorder.collective_table import Cell, CellState, CollectiveTable, TableRow
from oncall.flight_recorder.frames import call_site
from oncall.flight_recorder.model import Op, Origin
from oncall.flight_recorder.transfer_table import transfer_tables
from oncall.flight_recorder.units import RankView, Seat, State
from oncall.flight_recorder.waits import Graph
from oncall.run.nodes import fold_ranks

_MOST_TABLES = 4
_BEFORE = 3
_AFTER = 3
_MOST_COLUMNS = 12

_STATES = {
    State.DONE: CellState.DONE,
    State.PENDING: CellState.WAITS,
    State.IN_LAUNCH: CellState.IN_LAUNCH,
    State.NOT_ISSUED: CellState.NOT_ISSUED,
    State.UNKNOWN: CellState.UNKNOWN,
}


def tables(graph: Graph, origins: Sequence[Origin]) -> tuple[CollectiveTable, ...]:
    """What the groups of the origins did around them; without an origin, the groups that most ranks wait in.

    Of a group with sends and receives, whose two ends share no sequence number, each two ranks have one.
    """
    mixed = {group for view in graph.views.values() for group in view.batches}
    fronts = [view.front for view in graph.views.values() if view.front is not None and view.front.rank is None]
    waiting = Counter(front.group for front in fronts)
    around: dict[int, int] = {}
    for origin in origins:
        if origin.group is not None and origin.seq is not None:
            around.setdefault(graph.groups.known.index(origin.group), origin.seq)
    if mixed.issuperset(around):
        for group, _ in waiting.most_common():
            around.setdefault(group, min(front.seq for front in fronts if front.group == group))
    chosen = ((group, seq) for group, seq in around.items() if group not in mixed)
    accused = frozenset(rank for origin in origins for rank in origin.ranks)
    collective = (_table(graph, group, seq, waiting[group], accused) for group, seq in chosen)
    return tuple(islice(chain(collective, _transfers(graph, origins, mixed)), _MOST_TABLES))


def _transfers(graph: Graph, origins: Sequence[Origin], mixed: Collection[int]) -> Iterator[CollectiveTable]:
    for origin in origins:
        if origin.group is not None and (number := graph.groups.known.index(origin.group)) in mixed:
            yield from transfer_tables(graph, origin, number)


def _table(graph: Graph, number: int, at: int, waiting: int, accused: Collection[int]) -> CollectiveTable:
    """Ranks that behaved alike are a column, those with an accused one first: a narrow screen shows the first ones."""
    group = graph.groups.known[number]
    seqs = range(max(0, at - _BEFORE), at + _AFTER + 1)
    alike: dict[tuple[Cell, ...], list[int]] = defaultdict(list)
    for rank in group.ranks:
        alike[tuple(_history(graph.views.get(rank), number, seqs))].append(rank)
    ordered = sorted(alike.items(), key=lambda column: (set(column[1]).isdisjoint(accused), len(column[1]), column[1]))
    shown = ordered[: _MOST_COLUMNS - 1] + ordered[-1:] if len(ordered) > _MOST_COLUMNS else ordered
    rows = [_row(seq, tuple(cells[i] for cells, _ in shown), seq == at) for i, seq in enumerate(seqs)]
    return CollectiveTable(
        group=group.label,
        waiting=waiting,
        columns=tuple(fold_ranks(ranks) for _, ranks in shown),
        rows=tuple(row for row in rows if row.bad or any(cell.operation for cell in row.cells)),
        more=len(ordered) - len(shown),
    )


def _history(view: RankView | None, number: int, seqs: range) -> Iterator[Cell]:
    seat = view.seats.get(number) if view else None
    for seq in seqs:
        yield Cell(CellState.NO_DUMP) if view is None else _cell(seat, seq)


def _cell(seat: Seat | None, seq: int) -> Cell:
    if seat is None:
        return Cell(CellState.UNKNOWN)
    state, op = _STATES[seat.state(seq)], seat.ops.get(seq)
    return Cell(state) if op is None else _recorded(state, op)


def _recorded(state: CellState, op: Op) -> Cell:
    site = call_site(op)
    return Cell(
        state,
        operation=op.signature.op,
        elements=op.signature.sent,
        dtype=op.signature.dtypes[0] if op.signature.dtypes else None,
        site=f"{site.name}:{site.line}" if site else None,
    )


def _row(seq: int, cells: tuple[Cell, ...], bad: bool) -> TableRow:
    called = [cell for cell in cells if cell.operation is not None]
    return TableRow(
        sequence=seq,
        cells=cells,
        bad=bad,
        agrees=len({(cell.operation, cell.elements, cell.dtype) for cell in called}) <= 1,
        one_site=len({cell.site for cell in called}) <= 1,
    )
