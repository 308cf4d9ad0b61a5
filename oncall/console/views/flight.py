"""The Flight Recorder's table: the last collectives of each group that hangs, ranks that did the same in one column."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len

from oncall.console.glyphs import Glyphs
from oncall.console.lines import Row, Span, Tone, fit, heading, plain_row, safe, say
from oncall.console.snapshot import Snapshot
from oncall.flight_recorder.collective_table import cell_text, counted
from oncall.run.nodes import name_folded

if TYPE_CHECKING:
    from oncall.flight_recorder.collective_table import Cell, CollectiveTable, TableRow

_COLUMN = 46
_DIFFERS = "they differ"
_COLUMNS_SHOWN = 6


def table_rows(snapshot: Snapshot, glyphs: Glyphs, *, narrow: bool) -> list[Row]:
    """The tables; of none, why. On a `narrow` screen a sign alone marks where ranks differ."""
    known = snapshot.known
    tables = known.seen.collectives if known else ()
    if known is None or not (tables or "flight_recorder" in known.coverage):
        return [plain_row("none", _why_none(snapshot), Tone.WARN)]
    rows = [row for table in tables for row in _table(table, glyphs, narrow=narrow)]
    return rows or [plain_row("none", "no collective hangs in the dumps", Tone.DIM)]


def origin_rows(snapshot: Snapshot) -> list[Row]:
    """Each origin that the dumps name with its chain and the next check, and how complete the dumps were."""
    return [*_origins(snapshot), *_coverage(snapshot)]


def _why_none(snapshot: Snapshot) -> str:
    if snapshot.report is None:
        return "no dump yet: they are fetched when the walk asks which rank holds up a collective"
    return "no dump was fetched: this walk did not need any"


def _table(table: "CollectiveTable", glyphs: Glyphs, *, narrow: bool) -> Iterator[Row]:
    """Heading, columns as wide as what stands in them, a row each sequence number."""
    heads = [name_folded(ranks) for ranks in table.columns[:_COLUMNS_SHOWN]]
    body = [[_cell(cell, row) for cell in row.cells[:_COLUMNS_SHOWN]] for row in table.rows]
    columns = zip(*([(head, Tone.STRONG) for head in heads], *body), strict=True)
    widths = [min(_COLUMN, max(cell_len(text) for text, _ in column)) for column in columns]
    yield heading(f"group {table.group}   {counted(table.waiting, 'rank waits', 'ranks wait')} in it")
    titles = "  ".join(fit(safe(head), width) for head, width in zip(heads, widths, strict=True))
    differs = f"{glyphs.odd} " if narrow else f"{glyphs.odd} {_DIFFERS}  "
    marked = 0 if all(row.agrees for row in table.rows) else cell_len(differs)
    digits = max(len("seq"), *(len(str(row.sequence)) for row in table.rows))
    number = Span(f"  {'seq':>{digits}}  {'':{marked}}", Tone.DIM)
    yield Row(f"head {table.group}", (number, Span(titles, Tone.STRONG)), fixed=True)
    for row, cells in zip(table.rows, body, strict=True):
        mark = glyphs.here if row.bad else " "
        spans = [Span(f"{mark} {row.sequence:>{digits}}  ", Tone.HERE if row.bad else Tone.DIM)]
        spans.append(Span(fit("" if row.agrees else differs, marked), Tone.BAD))
        spans += [Span(fit(text, width) + "  ", tone) for (text, tone), width in zip(cells, widths, strict=True)]
        yield Row(f"{table.group} {row.sequence}", tuple(spans), about=table)
    hidden = max(0, len(table.columns) - _COLUMNS_SHOWN) + table.more
    if hidden:
        yield plain_row(f"more {table.group}", f"and {hidden} more sets of ranks", Tone.DIM)


def _cell(cell: "Cell", row: "TableRow") -> Span:
    tone = Tone.DIM
    if cell.state == "not issued" and row.bad:
        tone = Tone.BAD
    elif cell.operation is not None and cell.state != "done":
        tone = Tone.WARN if row.agrees else Tone.BAD
    return say(cell_text(cell, row), tone)


def _origins(snapshot: Snapshot) -> Iterator[Row]:
    known = snapshot.known
    for named in known.findings if known else ():
        finding = named.finding
        if not any(cite.probe == "flight_recorder" for cite in finding.cites):
            continue
        yield heading(f"{named.id}  {finding.kind}, {finding.grade}")
        yield plain_row(f"origin {named.id}", finding.text, Tone.STRONG, copies=finding.text)
        if finding.explains is not None:
            yield plain_row(f"explains {named.id}", f"explains {finding.explains:,} waiting ranks", Tone.DIM)
        for hop in finding.chain:
            yield plain_row(f"hop {named.id} {hop}", f"  {hop}", hang=4)
        if finding.next_check:
            yield plain_row(f"next {named.id}", f"next  {finding.next_check}", hang=6, copies=finding.next_check)


def _coverage(snapshot: Snapshot) -> Iterator[Row]:
    known = snapshot.known
    covered = known.coverage.get("flight_recorder") if known else None
    if covered is not None:
        yield heading(f"dumps: {covered.answered} of {covered.asked} nodes answered; enter shows a rank's raw entries")
        for host, reason in covered.missing.items():
            yield plain_row(f"missing {host}", f"{host}: {reason}", Tone.WARN)
