"""The table of an incident: sequence numbers around the divergence against the ranks that behaved alike."""

from collections import defaultdict
from dataclasses import dataclass

from oncall.flight_recorder.frames import call_site
from oncall.flight_recorder.groups import resolve
from oncall.flight_recorder.model import DumpSet, Op, Origin
from oncall.flight_recorder.units import RankView, State, view_ranks
from oncall.run.nodes import fold_ranks

_BEFORE = 2
_AFTER = 3
_MOST_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence number; `cells` follow the columns of the table, `bad` marks the first that did not finish."""

    seq: int
    cells: tuple[str, ...]
    bad: bool


@dataclass(frozen=True, slots=True)
class IncidentTable:
    """Rows by sequence number, columns by ranks that behaved alike (folded: `0-4,6`), largest column first."""

    group: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def incident_table(dumps: DumpSet, origin: Origin, *, world_size: int | None = None) -> IncidentTable | None:
    """Lay out what the origin's group did around it; None for sends and receives, whose ends share no number."""
    groups = resolve(dumps.dumps, world_size)
    views = view_ranks(dumps.dumps, groups)
    number = next((n for n, group in enumerate(groups.known) if group == origin.group), None)
    if number is None or origin.seq is None or any(number in view.batches for view in views.values()):
        return None
    seqs = range(max(1, origin.seq - _BEFORE), origin.seq + _AFTER + 1)
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for rank in groups.known[number].ranks:
        alike[_behaviour(views.get(rank), number, seqs)].append(rank)
    ordered = sorted(alike.items(), key=lambda column: -len(column[1]))[:_MOST_COLUMNS]
    rows = [Row(seq, tuple(cells[i] for cells, _ in ordered), seq == origin.seq) for i, seq in enumerate(seqs)]
    filled = [row for row in rows if any(cell != _NOTHING for cell in row.cells) or row.bad]
    name = groups.known[number].desc or groups.known[number].name
    return IncidentTable(name, tuple(fold_ranks(ranks) for _, ranks in ordered), tuple(filled))


_NOTHING = "-"
_WORD = {State.DONE: "done", State.PENDING: "waits", State.IN_LAUNCH: "in launch"}


def _behaviour(view: RankView | None, group: int, seqs: range) -> tuple[str, ...]:
    if view is None:
        return tuple("no dump" for _ in seqs)
    seat = view.seats.get(group)
    if seat is None:
        return tuple("?" for _ in seqs)
    return tuple(_cell(seat.state(seq), seat.ops.get(seq)) for seq in seqs)


def _cell(state: State, op: Op | None) -> str:
    if state is State.NOT_ISSUED:
        return _NOTHING
    if state is State.UNKNOWN:
        return "?"
    if op is None:
        return _WORD[state]
    site = call_site(op)
    size = "" if op.signature.sent is None else f"[{op.signature.sent}]"
    dtype = f" {op.signature.dtypes[0]}" if op.signature.dtypes else ""
    where = f" {site.name}:{site.line}" if site else ""
    return f"{op.signature.op}{size}{dtype}{where} {_WORD[state]}"


def as_lines(table: IncidentTable) -> list[str]:
    """The table as text; `>` marks the first bad row."""
    head = ["seq", *(f"rank{'' if column.isdecimal() else 's'} {column}" for column in table.columns)]
    body = [[f"{'> ' if row.bad else '  '}{row.seq}", *row.cells] for row in table.rows]
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [head, *body]
    ]
