"""The playbook as it was walked: each step with its verdict, where the walk is, and what it did not need."""

from typing import TYPE_CHECKING

from oncall.console.glyphs import Glyphs
from oncall.console.lines import Row, Span, Tone, fit, heading, say
from oncall.console.snapshot import Snapshot

if TYPE_CHECKING:
    from oncall.report.model import StepReport

_LONGEST_NAME = 21
_FAULTY = frozenset({"fault", "gone", "stopped", "blocked", "job-gone", "absent", "mismatch", "order", "gpu"})


def tree_rows(snapshot: Snapshot, glyphs: Glyphs) -> list[Row]:
    """Steps in the order walked, then the conclusion, then the steps that were not reached, dimmed."""
    playbook, known = snapshot.playbook, snapshot.known
    if playbook is None:
        return [heading("the playbook is being read")]
    against = set(snapshot.report.verdict.against) if snapshot.report else set()
    walked = known.steps if known else ()
    rows = [heading(f"{playbook.playbook.upper()}{'  guided' if snapshot.guided else ''}")]
    here = snapshot.report.verdict.conclusion if snapshot.report else snapshot.here
    width = min(_LONGEST_NAME, max(len(name) for name in (here or "", *(step.step for step in walked))))
    rows += [_walked(step, against, glyphs, width) for step in walked]
    if snapshot.report is not None:
        rows.append(_row(snapshot.report.verdict.conclusion, glyphs.here, "concludes", Tone.STRONG, width))
    elif here is not None:
        rows.append(_row(here, glyphs.here, "your word?" if snapshot.proposal else "...", Tone.HERE, width))
    reached = {row.key for row in rows}
    left = [name for name in playbook.steps if name not in reached]
    if left:
        rows.append(heading("not needed" if snapshot.report else "not reached yet"))
    rows += [Row(name, (say(f"{glyphs.passed_over} {name}", Tone.DIM),)) for name in left]
    return rows


def _walked(step: "StepReport", against: set[str], glyphs: Glyphs, width: int) -> Row:
    if step.overruled_because is not None:
        return _row(step.step, glyphs.overruled, f"yours: {step.verdict}", Tone.HERE, width)
    if against & set(step.findings):
        return _row(step.step, glyphs.against, step.verdict, Tone.WARN, width)
    if step.verdict == "unknown":
        return _row(step.step, glyphs.unknown, step.verdict, Tone.WARN, width)
    tone = Tone.BAD if step.verdict in _FAULTY else Tone.PLAIN
    return _row(step.step, glyphs.decided, step.verdict, tone, width)


def _row(name: str, glyph: str, word: str, tone: Tone, width: int) -> Row:
    return Row(name, (Span(f"{glyph} ", tone), say(fit(name, width) + " "), say(word, tone)), hang=4)
