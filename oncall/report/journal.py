"""What a triage and its operator did, in words: one line for each event worth telling."""

from collections.abc import Iterable
from datetime import datetime
from functools import singledispatch

import msgspec

from oncall.bundle.evidence import Outcome, answerers
from oncall.playbook.events import (
    Acted,
    ActStarted,
    Concluded,
    NodeAnswered,
    Noted,
    ProbeFinished,
    StepJudged,
    SteppedBack,
    WalkEvent,
    WalkStarted,
)

_LEFT = "still running when the console was left"


class JournalLine(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the triage or its operator did, at a time in UTC. `who` is "walk", "operator", or a probe."""

    at: datetime
    who: str
    text: str


def journal_lines(events: Iterable[WalkEvent]) -> tuple[JournalLine, ...]:
    """The lines of these events, in their order."""
    return tuple(line for event in events if (line := journal_line(event)) is not None)


@singledispatch
def journal_line(_event: WalkEvent) -> JournalLine | None:
    """What the timeline says of an event, None for those that are only progress."""
    return None


@journal_line.register
def _(event: ProbeFinished) -> JournalLine | None:
    text = f"{event.answered} of {event.asked} {answerers(event.probe)} answered"
    return JournalLine(at=event.at, who=event.probe, text=text)


@journal_line.register
def _(event: NodeAnswered) -> JournalLine | None:
    if event.outcome is Outcome.OK:
        return None
    return JournalLine(at=event.at, who=event.probe, text=f"{event.host}: {event.reason or event.outcome}")


@journal_line.register
def _(event: WalkStarted) -> JournalLine | None:
    how = "step by step" if event.guided else "anew"
    return JournalLine(at=event.at, who="operator", text=f"walks {event.playbook} {how}")


@journal_line.register
def _(event: StepJudged) -> JournalLine | None:
    if event.overruled_because is None:
        return JournalLine(at=event.at, who="walk", text=f"{event.step}: {event.verdict}; {event.reason}")
    why = f"because {event.overruled_because}; read was: {event.reason}"
    return JournalLine(at=event.at, who="operator", text=f"{event.step}: overruled to {event.verdict}, {why}")


@journal_line.register
def _(event: SteppedBack) -> JournalLine | None:
    return JournalLine(at=event.at, who="operator", text=f"takes {event.step} back")


@journal_line.register
def _(event: Concluded) -> JournalLine | None:
    return JournalLine(at=event.at, who="walk", text=f"concludes: {event.conclusion}")


@journal_line.register
def _(event: Noted) -> JournalLine | None:
    return JournalLine(at=event.at, who="operator", text=event.text)


@journal_line.register
def _(event: ActStarted) -> JournalLine | None:
    return JournalLine(at=event.at, who="operator", text=f"runs {event.command} for {event.host}")


@journal_line.register
def _(event: Acted) -> JournalLine | None:
    if event.left:
        return JournalLine(at=event.at, who="operator", text=f"{event.command} for {event.host}: {_LEFT}")
    ended = "no end in its time" if event.exit_code is None else f"exit code {event.exit_code}"
    printed = f": {event.output.strip()}" if event.output.strip() else ""
    return JournalLine(at=event.at, who="operator", text=f"ran {event.command} for {event.host}, {ended}{printed}")
