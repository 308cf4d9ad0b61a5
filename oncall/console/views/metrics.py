"""The metric queries as panels: verdict and number first, the query last."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from oncall.console.glyphs import Glyphs
from oncall.console.lines import NOTHING, Row, Span, Tone, fit, plain_row, say
from oncall.console.snapshot import Snapshot
from oncall.report.durations import duration

if TYPE_CHECKING:
    from oncall.report.panels import Panel, PanelRow

_WHO = 22
_ROWS = 5
_SPARKS = 12
_LEAST_SPAN = 0.1
"""Of the greatest value: what differs by less is drawn as what it is, even."""
_TONES = {"suspect": Tone.BAD, "clear": Tone.GOOD, "unknown": Tone.WARN}


def no_panels(snapshot: Snapshot) -> list[Row]:
    """What stands here when there is no panel: what is missing, and what brings it."""
    if snapshot.report is None:
        return [plain_row(NOTHING, "UNKNOWN  no metric was read yet", Tone.WARN)]
    return [
        plain_row(NOTHING, "UNKNOWN  this walk read no metrics, so nothing here is cleared", Tone.WARN),
        plain_row("why", "Panels need a playbook that asks for metrics, and a Prometheus that the run file names."),
        plain_row("keys", "p chooses another playbook, r asks again", Tone.DIM),
    ]


def panel_rows(panel: "Panel", glyphs: Glyphs) -> list[Row]:
    """One panel."""
    rows = [
        Row(
            "head",
            (say(f"{panel.question}  ", Tone.STRONG), Span(panel.verdict.upper(), _TONES[panel.verdict])),
            copies=panel.query or None,
        ),
        plain_row("reason", panel.reason, Tone.WARN if panel.verdict == "unknown" else Tone.PLAIN),
    ]
    if not panel.rows and panel.verdict != "unknown":
        rows.append(plain_row(NOTHING, "no value of this query was read", Tone.WARN))
    shown = panel.rows[:_ROWS]
    width = min(_WHO, max((cell_len(row.who) for row in shown), default=0))
    known = [value for row in shown for value in row.history[-_SPARKS:] if value is not None]
    scale = (min(known), max(known)) if known else (0.0, 0.0)
    rows += [_row(row, panel, sparkline(row.history, scale, glyphs), width) for row in shown]
    rows += _footer(panel)
    rows.append(plain_row("query", panel.query, Tone.DIM, copies=panel.query))
    return rows


def _row(row: "PanelRow", panel: "Panel", bars: str, width: int) -> Row:
    spans = (
        say(fit(row.who, width) + " "),
        say(f"{row.value:>10,.4g} {panel.unit:<4} ", Tone.BAD if row.accused else Tone.STRONG),
        Span(bars, Tone.HERE),
    )
    return Row(f"series {row.who}", spans, copies=row.host or row.who, about=row)


def sparkline(values: Sequence[float | None], scale: tuple[float, float], glyphs: Glyphs) -> str:
    """The last values as bars on a scale (least, greatest) that all rows of a panel share; a gap is a space."""
    shown = values[-_SPARKS:]
    low = min(scale[0], scale[1] - _LEAST_SPAN * abs(scale[1]))
    span, top = (scale[1] - low) or 1.0, len(glyphs.spark) - 1
    return "".join(" " if v is None else glyphs.spark[round((v - low) / span * top)] for v in shown).rstrip()


def _footer(panel: "Panel") -> Iterator[Row]:
    told = []
    limits = [row.limit for row in panel.rows if row.limit is not None]
    if limits:
        low, high = f"{min(limits):,.4g}", f"{max(limits):,.4g}"
        each = f" to {high}" if low != high else ""
        told.append(f"bad {panel.bad} {low}{each} {panel.unit}".rstrip() + (", each by its own limit" if each else ""))
    if panel.newest_age_s is not None:
        told.append(f"newest sample {duration(panel.newest_age_s)} old")
    if len(panel.rows) > _ROWS:
        told.append(f"{len(panel.rows) - _ROWS} more series")
    if told:
        yield plain_row("told", ", ".join(told), Tone.DIM)
