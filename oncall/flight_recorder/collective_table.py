"""The table of an incident: sequence numbers around the divergence against the ranks that behaved alike."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from oncall.flight_recorder.layout import columns_that_fit, laid_out
from oncall.neutral import neutral
from oncall.run.nodes import name_folded

_LONGEST_HEADING = 32


class CellState(StrEnum):
    """How far the ranks of a column got with one collective."""

    DONE = "done"
    WAITS = "waits"
    IN_LAUNCH = "in launch"
    NOT_ISSUED = "not issued"
    UNKNOWN = "not known"
    """The ring no longer tells, and there is no counter."""
    NO_DUMP = "no dump"


@dataclass(frozen=True, slots=True)
class Cell:
    """What the ranks of a column did at one sequence number.

    `elements` is the number sent and `site` the call site as `function:line`; None where no entry says.
    """

    state: CellState
    operation: str | None = None
    elements: int | None = None
    dtype: str | None = None
    site: str | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """One sequence number, with a cell for each column of its table; `bad` marks where the ranks diverge.

    `agrees` is False where operations or sizes differ, `one_site` where the same was called from different places.
    """

    sequence: int
    cells: tuple[Cell, ...]
    bad: bool
    agrees: bool
    one_site: bool


@dataclass(frozen=True, slots=True)
class CollectiveTable:
    """Sequence numbers around a divergence against the ranks of a group that behaved alike.

    The sets with an accused rank come first, then the smallest.

    `columns` are folded ranks (`0-4,6`), `waiting` counts the ranks at this group's operations, `more` the sets of
    ranks beyond the last column.
    """

    group: str
    waiting: int
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    more: int


def cell_text(cell: Cell, row: TableRow) -> str:
    """A cell in a few words: what its row already agrees on is left out, as is the call site that all share."""
    if cell.operation is None:
        return cell.state
    size = "" if row.agrees or cell.elements is None else f" {cell.elements:,}"
    dtype = "" if row.agrees or cell.dtype is None else f" {cell.dtype}"
    site = "" if row.one_site or cell.site is None else f" {cell.site}"
    return f"{cell.operation}{size}{dtype}{site} {cell.state}"


def as_lines(table: CollectiveTable, width: int | None = None) -> Iterator[str]:
    """The table as text; `>` marks the row where they diverge.

    Within `width` columns: those that have no room are counted, the largest set, which is the last, always has.
    """
    grid = [["  seq", *map(_heading, table.columns)]]
    grid += [
        [f"{'> ' if row.bad else '  '}{row.sequence}", *(neutral(cell_text(cell, row)) for cell in row.cells)]
        for row in table.rows
    ]
    shown = columns_that_fit(grid, width)
    yield f"group {neutral(table.group)}: {counted(table.waiting, 'rank waits', 'ranks wait')} in it"
    yield from laid_out([[line[0], *(line[place] for place in shown)] for line in grid], width)
    hidden = table.more + len(table.columns) - len(shown)
    if hidden:
        yield f"  and {counted(hidden, 'more set', 'more sets')} of ranks"


def counted(number: int, one: str, more: str) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else more}"


def _heading(ranks: str) -> str:
    """A set of ranks as it heads a column; of one in many pieces the first."""
    if len(ranks) <= _LONGEST_HEADING:
        return name_folded(ranks)
    return f"{name_folded(ranks[:_LONGEST_HEADING].rpartition(',')[0])}, ..."
