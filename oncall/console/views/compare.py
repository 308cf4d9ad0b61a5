"""The triage before this one beside it: only what changed."""

from typing import TYPE_CHECKING

from oncall.console.lines import NOTHING, Row, Span, Tone, heading, plain_row, say
from oncall.console.snapshot import Snapshot
from oncall.report.changes import changes

if TYPE_CHECKING:
    from oncall.report.model import Change


def compare_rows(snapshot: Snapshot) -> list[Row]:
    """Each change with what was and what is."""
    before, now = snapshot.before, snapshot.report
    if now is None:
        return [plain_row(NOTHING, "this triage has no answer yet to lay beside the one before", Tone.WARN)]
    if before is None:
        again = "; r makes a new one" if snapshot.start.live else ""
        return [plain_row(NOTHING, f"no earlier triage of this run lies beside this bundle{again}", Tone.WARN)]
    rows = [heading(f"{before.started:%Y-%m-%d %H:%M:%S} UTC, and now {now.started:%Y-%m-%d %H:%M:%S} UTC")]
    found = changes(before, now)
    for change in found:
        rows += change_rows(change)
    if not found:
        rows.append(plain_row("same", "nothing changed", Tone.GOOD))
    return rows


def change_rows(change: "Change") -> list[Row]:
    """One change: what, and what it was and is."""
    head = Row(f"what {change.what}", (say(change.what, Tone.STRONG),), copies=change.now, about=change)
    return [head, _side("was", change.before, Tone.DIM, change), _side("now", change.now, Tone.PLAIN, change)]


def _side(label: str, text: str | None, tone: Tone, change: "Change") -> Row:
    spans = (Span(f"  {label}  ", Tone.DIM), say(text or "not so", tone))
    return Row(f"{label} {change.what}", spans, hang=7, copies=text, about=change)
