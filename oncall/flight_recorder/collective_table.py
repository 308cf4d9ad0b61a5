"""The table of an incident: sequence numbers around the divergence against the ranks that behaved alike."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from oncall.run.nodes import name_folded


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
    """Sequence numbers around a divergence against the ranks of a group that behaved alike, the smallest set first.

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


def as_lines(table: CollectiveTable) -> Iterator[str]:
    """The table as text; `>` marks the row where they diverge."""
    lines = [["  seq", *map(name_folded, table.columns)]]
    lines += [
        [f"{'> ' if row.bad else '  '}{row.sequence}", *(cell_text(cell, row) for cell in row.cells)]
        for row in table.rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    yield f"group {table.group}: {table.waiting} ranks wait in it"
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    if table.more:
        yield f"  and {table.more} more sets of ranks"
