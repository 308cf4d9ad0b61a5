"""The table of two ranks whose sends and receives do not come together: each transfer with what either end did."""

from collections.abc import Iterator

from oncall.flight_recorder.collective_table import Cell, CellState, CollectiveTable, TableRow
from oncall.flight_recorder.frames import call_site
from oncall.flight_recorder.model import Origin
from oncall.flight_recorder.pairing import Counterpart, End
from oncall.flight_recorder.units import Batch, Transfer
from oncall.flight_recorder.waits import Graph

_OTHER_END = {
    End.NO_DUMP: CellState.NO_DUMP,
    End.ABSENT: CellState.NOT_ISSUED,
    End.HELD: CellState.WAITS,
    End.DONE: CellState.DONE,
}

Pair = tuple[int, int]


def transfer_tables(graph: Graph, origin: Origin, number: int) -> Iterator[CollectiveTable]:
    """A table for each two ranks of group `number` of which one waits for the other, and one is of the origin.

    Both ends count on their own, so the sequence number of a row is that of the rank that waits.
    """
    group = graph.groups.known[number]
    involved = {*origin.ranks, *origin.among}
    rows: dict[Pair, dict[object, TableRow]] = {}
    fronts = [view.front for view in graph.views.values() if view.front is not None]
    waiting = [front for front in fronts if front.group == number and front.rank is not None]
    for front in waiting:
        batch = graph.batches[front]
        # Beyond those of its transfers are who may be the other end of a receive from any source.
        for transfer, other in zip(batch.transfers, graph.pairing.counterparts(batch), strict=False):
            here = front.rank if front.rank is not None else -1
            if other.rank >= 0 and not involved.isdisjoint({here, other.rank}):
                pair = (min(here, other.rank), max(here, other.rank))
                there = other.batch.unit if other.batch is not None else None
                key = (frozenset({front, there}), transfer.source, transfer.destination)
                rows.setdefault(pair, {}).setdefault(key, _row(batch, transfer, other, group.ranks, here == pair[0]))
    for pair, own in sorted(rows.items()):
        columns = tuple(map(str, pair))
        yield CollectiveTable(group.label, len(waiting), columns, tuple(own.values()), more=0)


def _row(batch: Batch, transfer: Transfer, other: Counterpart, members: tuple[int, ...], first: bool) -> TableRow:
    mine = _cell(CellState.WAITS, batch, transfer, members)
    theirs = Cell(_OTHER_END[other.end])
    if other.batch is not None and other.transfer is not None:
        theirs = _cell(_OTHER_END[other.end], other.batch, other.transfer, members)
    return TableRow(
        sequence=batch.unit.seq,
        cells=(mine, theirs) if first else (theirs, mine),
        bad=other.end is End.ABSENT or other.disagrees,
        agrees=not other.disagrees,
        one_site=False,
    )


def _cell(state: CellState, batch: Batch, transfer: Transfer, members: tuple[int, ...]) -> Cell:
    site = call_site(batch.op)
    way = "send" if transfer.sends else "recv"
    ends = (str(members[local]) if local < len(members) else "?" for local in (transfer.source, transfer.destination))
    return Cell(
        state,
        operation=f"{way} {'->'.join(ends)}",
        elements=transfer.elements,
        dtype=transfer.dtype,
        site=f"{site.name}:{site.line}" if site else None,
    )
