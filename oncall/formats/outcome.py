"""What a reader of one kind of line answers, and how events are made from it."""

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from oncall.formats.event import Event, Json
from oncall.formats.lines import Line, Log


class Near(Enum):
    """A line that speaks in a known voice, at a level that matters, in words that no rule knows."""

    MISS = "unrecognised"


Outcome: TypeAlias = "Event | Near | None"
Reader: TypeAlias = Callable[[Line, Log], Outcome]


def event(kind: str, line: Line, log: Log, **fields: Json) -> Event:
    """An event of `kind` that `line` alone tells."""
    return Event(kind, log.name, line.number, line.number, fields)


def block(kind: str, first: Line, last: Line, log: Log, **fields: Json) -> Event:
    """An event of `kind` that the lines `first` to `last` tell together."""
    return Event(kind, log.name, first.number, last.number, fields)
