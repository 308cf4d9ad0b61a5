"""Takes each event of a walk into the snapshot: pure, one event at a time."""

from collections.abc import Iterable
from dataclasses import replace

from oncall.bundle.evidence import Outcome
from oncall.console.snapshot import ProbeProgress, Snapshot, probe_of, with_probe
from oncall.playbook.events import (
    Concluded,
    NodeAnswered,
    ProbeFinished,
    ProbeStarted,
    StepStarted,
    Waiting,
    WalkEvent,
)
from oncall.report.journal import journal_line


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
