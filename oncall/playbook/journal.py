"""Reads back what a walk and its operator did, from a bundle's `events.jsonl`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from oncall.bundle.store import Bundle
from oncall.playbook.engine import Overruling
from oncall.playbook.events import Concluded, StepJudged, SteppedBack, WalkEvent, WalkStarted


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the last walk of a bundle stood.

    `playbook` is None where the operator chose none. `steps` are those taken and not taken back, in order;
    `overrulings` maps a step to the operator's own verdict.
    """

    playbook: str | None = None
    guided: bool = False
    concluded: bool = False
    steps: tuple[str, ...] = ()
    overrulings: Mapping[str, Overruling] = field(default_factory=dict)


def read_journal(bundle: Bundle) -> tuple[WalkEvent, ...]:
    """Every whole event, oldest first; a line that was cut by a crash, or that no version knows, is passed over."""
    decoder = msgspec.json.Decoder(WalkEvent)
    events: list[WalkEvent] = []
    # Not `splitlines`: words of a node may hold other line ends, which JSON keeps as they are.
    for line in (bundle.read_text("events.jsonl") or "").split("\n"):
        try:
            events.append(decoder.decode(line))
        except msgspec.DecodeError:
            continue
    return tuple(events)


def read_standing(bundle: Bundle) -> Standing:
    """Where the last walk of this bundle stood."""
    return standing_of(read_journal(bundle))


def standing_of(events: Iterable[WalkEvent]) -> Standing:
    """Where the last walk among these events stood."""
    started: WalkStarted | None = None
    taken: list[StepJudged] = []
    concluded = False
    for event in events:
        match event:
            case WalkStarted():
                started, taken, concluded = event, [], False
            case StepJudged():
                taken.append(event)
            case SteppedBack():
                concluded = False
                if taken:
                    taken.pop()
            case Concluded():
                concluded = True
            case _:
                pass
    return Standing(
        playbook=started.playbook if started else None,
        guided=started.guided if started else False,
        concluded=concluded,
        steps=tuple(event.step for event in taken),
        overrulings={
            event.step: Overruling(event.verdict, event.overruled_because)
            for event in taken
            if event.overruled_because is not None
        },
    )
