"""The last collectives of each group that hangs, as a table: a row each sequence number, a column each set of ranks."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from oncall.flight_recorder.model import Op, RankDump
from oncall.run.nodes import fold_ranks

_MOST_TABLES = 4
_ROWS_BEFORE = 4
_ROWS_AFTER = 2
_MOST_COLUMNS = 12


class CellState(StrEnum):
    """How far a set of ranks got with one collective. `NO_ENTRY`: the ring no longer, or not yet, tells."""

    DONE = "done"
    OPEN = "open"
    NOT_ISSUED = "not issued"
    NO_ENTRY = "no entry"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What a set of ranks did at one sequence number; `elements` is the number sent, None where not recorded."""

    state: CellState
    operation: str | None = None
    elements: int | None = None
    dtype: str | None = None


class CollectiveRow(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence number, with a cell for each column of its table; `agrees` is False where operations differ."""

    sequence: int
    cells: tuple[Cell, ...]
    agrees: bool


class CollectiveTable(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one group's history. Ranks of one column did the same; the smallest sets stand first.

    `more` counts the sets beyond the last column.
    """

    group: str
    waiting: int
    columns: tuple[str, ...]
    rows: tuple[CollectiveRow, ...]
    more: int


def collective_tables(dumps: Mapping[int, RankDump]) -> tuple[CollectiveTable, ...]:
    """The tables of the groups with an operation that has not ended, those with the most waiting ranks first."""
    front: dict[int, Op] = {}
    for rank, dump in dumps.items():
        pending = _first_open(dump)
        if pending is not None:
            front[rank] = pending
    waiting = Counter(op.group for op in front.values())
    return tuple(
        _table(group, count, dumps, [op.seq for op in front.values() if op.group == group])
        for group, count in waiting.most_common(_MOST_TABLES)
    )


def _first_open(dump: RankDump) -> Op | None:
    return next((op for op in dump.ops if not op.done and op.peers is None), None)


def _table(group: str, waiting: int, dumps: Mapping[int, RankDump], fronts: list[int]) -> CollectiveTable:
    low, high = min(fronts) - _ROWS_BEFORE, max(fronts) + _ROWS_AFTER
    histories: dict[tuple[Cell, ...], list[int]] = defaultdict(list)
    highest = 0
    for rank, dump in dumps.items():
        own = dict(_window(dump, group, low, high))
        if own:
            highest = max(highest, *own)
            histories[tuple(_cell(own, seq) for seq in range(low, high + 1))].append(rank)
    ordered = sorted(histories.items(), key=lambda item: (len(item[1]), item[1]))
    shown = ordered[: _MOST_COLUMNS - 1] + ordered[-1:] if len(ordered) > _MOST_COLUMNS else ordered
    rows = tuple(
        _row(seq, [history[seq - low] for history, _ in shown]) for seq in range(max(0, low), min(high, highest) + 1)
    )
    desc = next((dump.descs[group] for dump in dumps.values() if dump.descs.get(group)), group)
    columns = tuple(fold_ranks(ranks) for _, ranks in shown)
    return CollectiveTable(
        group=desc, waiting=waiting, columns=columns, rows=rows, more=max(0, len(ordered) - len(shown))
    )


def _window(dump: RankDump, group: str, low: int, high: int) -> Iterator[tuple[int, Op]]:
    """A rank's own operations of the group in this range of sequence numbers; operations stand in record order."""
    for op in reversed(dump.ops):
        if op.group == group and op.peers is None:
            if op.seq < low:
                return
            if op.seq <= high:
                yield op.seq, op


def _cell(own: Mapping[int, Op], seq: int) -> Cell:
    op = own.get(seq)
    if op is not None:
        return Cell(
            state=CellState.DONE if op.done else CellState.OPEN,
            operation=op.signature.op,
            elements=op.signature.sent,
            dtype=op.signature.dtypes[0] if op.signature.dtypes else None,
        )
    return Cell(state=CellState.NOT_ISSUED if seq > max(own) else CellState.NO_ENTRY)


def _row(seq: int, cells: Iterable[Cell]) -> CollectiveRow:
    chosen = tuple(cells)
    told = {(cell.operation, cell.elements, cell.dtype) for cell in chosen if cell.operation is not None}
    return CollectiveRow(sequence=seq, cells=chosen, agrees=len(told) <= 1)
