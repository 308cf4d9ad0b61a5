"""The triage before this one beside it: only what changed."""

from oncall.console.lines import Row, Span, Tone, heading, plain_row, say
from oncall.console.snapshot import Snapshot
from oncall.report.changes import changes


def compare_rows(snapshot: Snapshot) -> list[Row]:
    """Each change with what was and what is."""
    before, now = snapshot.before, snapshot.report
    if now is None:
        return [plain_row("none", "this triage has no answer yet to lay beside the one before", Tone.WARN)]
    if before is None:
        return [
            plain_row("none", "no earlier triage of this run lies beside this bundle; r makes a new one", Tone.WARN)
        ]
    rows = [heading(f"{before.started:%Y-%m-%d %H:%M:%S} UTC, and now {now.started:%Y-%m-%d %H:%M:%S} UTC")]
    found = changes(before, now)
    for change in found:
        rows.append(Row(f"what {change.what}", (say(change.what, Tone.STRONG),), copies=change.now))
        rows.append(_side("was", change.before, Tone.DIM))
        rows.append(_side("now", change.now, Tone.PLAIN))
    if not found:
        rows.append(plain_row("same", "nothing changed", Tone.GOOD))
    return rows


def _side(label: str, text: str | None, tone: Tone) -> Row:
    return Row(f"{label} {text}", (Span(f"  {label}  ", Tone.DIM), say(text or "not so", tone)), hang=7, copies=text)
