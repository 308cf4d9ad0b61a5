"""What it is and what to do: the two questions of somebody who was just woken."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from oncall.console.glyphs import Glyphs
from oncall.console.lines import Line, Row, Span, Tone, plain_row, say
from oncall.console.snapshot import Snapshot
from oncall.report.against import against
from oncall.report.numbered import numbered

if TYPE_CHECKING:
    from oncall.readings.alert_set import AlertRow
    from oncall.report.model import Account, ReadyAction

_LABEL = 10
_MOST_ALERTS = 2
_LABELS = {
    "cause-found": ("ORIGIN", Tone.BAD),
    "undecided": ("UNDECIDED", Tone.WARN),
    "nothing-wrong": ("SOUND", Tone.GOOD),
    "not-enough": ("UNSEEN", Tone.WARN),
}
_GRADES = {"sure": Tone.STRONG, "likely": Tone.WARN, "undecided": Tone.WARN}


class Runnable(NamedTuple):
    """A command that the operator may run, and what it is about: what has to be typed to run it."""

    command: str
    target: str


def headline(snapshot: Snapshot) -> Row:
    """The answer, with the grade that it carries; before there is one, who has answered what."""
    if snapshot.problem is not None and snapshot.report is None:
        return _labelled("FAILED", Tone.BAD, snapshot.problem)
    report = snapshot.report
    if report is None:
        return _under_way(snapshot)
    label, tone = _LABELS[str(report.verdict.ending)]
    title, cause = report.verdict.title, report.verdict.cause
    spans = [Span(f" {label:<{_LABEL}}", tone), say(f"{title}: ", Tone.STRONG), say(cause)]
    if report.verdict.grade is not None and str(report.verdict.grade) != str(report.verdict.ending):
        grade = str(report.verdict.grade)
        spans.append(Span(f"  [{grade}]", _GRADES[grade]))
    return Row("headline", tuple(spans), hang=_LABEL + 1, copies=report.headline)


def _under_way(snapshot: Snapshot) -> Row:
    known = snapshot.known
    if snapshot.guided and snapshot.proposal is not None:
        return _labelled("GUIDED", Tone.HERE, "the step below waits for your word: confirm it or overrule it")
    asked = [
        f"{each.name} {each.answered:,}/{each.asked:,}" + (f" ({len(each.missing)} failed)" if each.missing else "")
        for each in snapshot.probes
    ]
    if known is not None and known.steps:
        return _labelled("SO FAR", Tone.HERE, known.steps[-1].reason)
    if not asked and snapshot.start.live:
        return _labelled("ASKING", Tone.HERE, "the nodes are being reached")
    if not asked:
        return _labelled("READING", Tone.HERE, f"what was recorded in {snapshot.start.bundle}")
    return _labelled("ASKING", Tone.HERE, "  ".join(asked))


def _labelled(label: str, tone: Tone, text: str) -> Row:
    return Row("headline", (Span(f" {label:<{_LABEL}}", tone), say(text)), hang=_LABEL + 1)


def actions(snapshot: Snapshot) -> list[Row]:
    """What to do, numbered; a row that `y` copies and `x` runs shows the command."""
    report = snapshot.report
    if report is None:
        return [_action_row("do", " DO", (Span(_why_nothing(snapshot), Tone.DIM),))]
    rows: list[Row] = []
    for number, words, together in numbered(report.actions):
        head: Line = (Span(f"{number} ", Tone.STRONG), say(words))
        for action in together:
            command = (say(f"  $ {action.command}", Tone.DIM),) if action.command else ()
            key, label = f"do {len(rows)}", "" if rows else " DO"
            rows.append(_action_row(key, label, (*head, *command), copies=action.command, about=runnable(action)))
            head = ()
    if not rows:
        rows.append(_action_row("do", " DO", (Span("nothing", Tone.GOOD),)))
    return rows


def _why_nothing(snapshot: Snapshot) -> str:
    if snapshot.problem is not None:
        return "nothing: the walk has failed"
    return f"nothing yet: the walk {'waits for your word' if snapshot.proposal else 'goes on'}"


def runnable(action: "ReadyAction") -> Runnable | None:
    """What `x` runs of an action."""
    if action.command is None or action.target is None:
        return None
    return Runnable(action.command, action.target)


def _action_row(
    key: str, label: str, spans: tuple[Span, ...], *, copies: str | None = None, about: object = None
) -> Row:
    head = Span(f"{label:<{_LABEL + 1}}", Tone.HERE)
    return Row(key, (head, *spans), hang=_LABEL + 3, copies=copies, about=about)


def standing_against(snapshot: Snapshot) -> list[Row]:
    """What speaks against the conclusion, when to escalate, the alerts, and what a person called at night is told."""
    known, report = snapshot.known, snapshot.report
    rows = []
    if report is not None:
        told = "; ".join(against(report))
        rows.append(_standing("AGAINST", told or "nothing seen contradicts it", Tone.WARN if told else Tone.DIM))
        if report.escalate:
            rows.append(_standing("ESCALATE", report.escalate, Tone.WARN))
    if snapshot.waiting:
        rows.append(_standing("WAITING", snapshot.waiting, Tone.HERE))
    rows += [_standing("PROBLEM", told, Tone.BAD) for told in (snapshot.problem, snapshot.mishap) if told is not None]
    if known is not None:
        rows += _told_of(known)
    return rows


def _told_of(known: "Account") -> Iterator[Row]:
    """Another playbook where the evidence calls for one, the alerts that fire, and the job in one message."""
    symptom = known.symptom
    if symptom is not None and symptom.source != "nothing" and symptom.playbook != known.playbook:
        yield _standing("CALLS FOR", f"{symptom.playbook}: {symptom.reason}; p walks it", Tone.WARN)
    for alert in (known.alerts or ())[:_MOST_ALERTS]:
        yield _standing("ALERT", alert_words(alert), Tone.WARN if not alert.suppressed else Tone.DIM)
    left = len(known.alerts or ()) - _MOST_ALERTS
    if left > 0:
        yield _standing("ALERT", f"and {left} more; the timeline (7) has all", Tone.DIM)
    if known.job is not None:
        yield _standing("JOB", known.job.message, Tone.DIM, copies=known.job.message)


def alert_words(alert: "AlertRow") -> str:
    """An alert with its severity, since when, what it says, and what keeps it from notifying."""
    severity = f" ({alert.severity})" if alert.severity else ""
    parts = [f"{alert.name}{severity} since {alert.since:%Y-%m-%d %H:%M} UTC", alert.summary or ""]
    parts += [f"silenced by {each}" for each in alert.silenced_by]
    parts += [f"inhibited by {each}" for each in alert.inhibited_by]
    return "; ".join(part for part in parts if part)


def _standing(label: str, text: str, tone: Tone, *, copies: str | None = None) -> Row:
    head = Span(f" {label:<{_LABEL}}", tone)
    return Row(f"{label} {text}", (head, say(text)), hang=_LABEL + 1, copies=copies)


def moments(snapshot: Snapshot, glyphs: Glyphs) -> Row:
    """The known moments in one line, the earliest first."""
    known = snapshot.known
    told = [f"{each.at:%H:%M:%S} {each.text}" for each in known.seen.timeline] if known else []
    return plain_row("moments", " " + f"  {glyphs.passed_over}  ".join(told), Tone.DIM)
