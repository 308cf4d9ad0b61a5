"""Takes each event of a walk into the snapshot: pure, one event at a time."""

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch

from oncall.bundle.evidence import Outcome
from oncall.console.snapshot import JournalLine, ProbeProgress, Snapshot, probe_of, with_probe
from oncall.playbook.events import (
    Acted,
    Concluded,
    NodeAnswered,
    Noted,
    ProbeFinished,
    ProbeStarted,
    StepJudged,
    SteppedBack,
    StepStarted,
    Waiting,
    WalkEvent,
    WalkStarted,
)


def take_in(snapshot: Snapshot, event: WalkEvent) -> Snapshot:
    """The snapshot after this event."""
    line = journal_line(event)
    if line is not None:
        snapshot = replace(snapshot, journal=(*snapshot.journal, line))
    match event:
        case ProbeStarted():
            snapshot = _started(snapshot, event)
        case NodeAnswered():
            snapshot = _answered(snapshot, event)
        case ProbeFinished() if known := probe_of(snapshot, event.probe):
            snapshot = with_probe(snapshot, replace(known, finished=True))
        case StepStarted():
            snapshot = replace(snapshot, here=event.step, waiting=None)
        case Waiting():
            snapshot = replace(snapshot, waiting=f"{event.what}; at most {event.left_s:.0f} s more")
        case Concluded():
            snapshot = replace(snapshot, here=None, waiting=None)
        case _:
            pass
    return snapshot


def take_in_all(snapshot: Snapshot, events: Iterable[WalkEvent]) -> Snapshot:
    """The snapshot after all of these."""
    for event in events:
        snapshot = take_in(snapshot, event)
    return snapshot


def _started(snapshot: Snapshot, event: ProbeStarted) -> Snapshot:
    """A probe put anew to some nodes only keeps what the others answered."""
    known = probe_of(snapshot, event.probe)
    if known is None or len(event.asked) >= known.asked:
        return with_probe(snapshot, ProbeProgress(event.probe, len(event.asked)))
    missing = {host: why for host, why in known.missing.items() if host not in event.asked}
    again = len(known.missing) - len(missing)
    answered = known.answered if again else known.answered - len(event.asked)
    return with_probe(snapshot, replace(known, answered=answered, missing=missing, finished=False))


def _answered(snapshot: Snapshot, event: NodeAnswered) -> Snapshot:
    known = probe_of(snapshot, event.probe)
    if known is None:
        return snapshot
    took_s = max(known.took_s, event.took_s)
    if event.outcome is Outcome.OK:
        return with_probe(snapshot, replace(known, answered=known.answered + 1, took_s=took_s))
    missing = {**known.missing, event.host: event.reason or str(event.outcome)}
    return with_probe(snapshot, replace(known, missing=missing, took_s=took_s))


@singledispatch
def journal_line(_event: WalkEvent) -> JournalLine | None:
    """What the timeline says of an event, None for those that are only progress."""
    return None


@journal_line.register
def _(event: ProbeFinished) -> JournalLine | None:
    return JournalLine(event.at, event.probe, f"{event.answered} of {event.asked} nodes answered")


@journal_line.register
def _(event: NodeAnswered) -> JournalLine | None:
    if event.outcome is Outcome.OK:
        return None
    return JournalLine(event.at, event.probe, f"{event.host}: {event.reason or event.outcome}")


@journal_line.register
def _(event: WalkStarted) -> JournalLine | None:
    return JournalLine(event.at, "operator", f"walks {event.playbook} {'step by step' if event.guided else 'anew'}")


@journal_line.register
def _(event: StepJudged) -> JournalLine | None:
    if event.overruled_because is None:
        return JournalLine(event.at, "walk", f"{event.step}: {event.verdict}; {event.reason}")
    why = f"because {event.overruled_because}; read was: {event.reason}"
    return JournalLine(event.at, "operator", f"{event.step}: overruled to {event.verdict}, {why}")


@journal_line.register
def _(event: SteppedBack) -> JournalLine | None:
    return JournalLine(event.at, "operator", f"takes {event.step} back")


@journal_line.register
def _(event: Concluded) -> JournalLine | None:
    return JournalLine(event.at, "walk", f"concludes: {event.conclusion}")


@journal_line.register
def _(event: Noted) -> JournalLine | None:
    return JournalLine(event.at, "operator", event.text)


@journal_line.register
def _(event: Acted) -> JournalLine | None:
    ended = "no end in its time" if event.exit_code is None else f"exit code {event.exit_code}"
    printed = f": {event.output.strip()}" if event.output.strip() else ""
    return JournalLine(event.at, "operator", f"ran {event.command} for {event.host}, {ended}{printed}")
