"""Pairs the starts and ends of torchtitan's spans into seconds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from oncall.formats.event import Event
from oncall.signals.records import plausible_time

MAX_OPEN_SPANS = 256
"""Starts kept of one file; a healthy trainer has under ten open at once."""


class Phase(Enum):
    """What a record of a span says."""

    START = "span_start"
    END = "span_end"
    ERROR = "span_error"


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One record of one rank's span. `time` in unix seconds.

    `seconds` is known at the end of a span that ended well: a span that raised tells `ERROR` and then its end.
    """

    rank: int | None
    name: str
    phase: Phase
    step: int | None
    time: float
    seconds: float | None


class SpanPairs:
    """The spans of one structured log, across the reads of it.

    Ends close the last start of the same task and name, as spans of one task nest (torchtitan/observability
    structured_logging.py, v0.3.0). An end whose start was not read takes the duration that it tells itself.
    """

    def __init__(self) -> None:
        self._open: list[tuple[tuple[str | None, str], float]] = []
        self._failed: set[tuple[str | None, str]] = set()

    def records(self, events: Iterable[Event], written: float) -> Iterator[SpanRecord]:
        """The span records among `events`; `written`, in unix seconds, stands in for a missing time."""
        for event in events:
            name = event.text("name")
            if name is None or event.kind not in _PHASES:
                continue
            stamp = event.number("time_us")
            time = plausible_time(None if stamp is None else stamp / 1e6, written)
            key = (event.text("task"), name)
            phase = Phase(event.kind)
            seconds = self._pair(key, phase, time, event.fields.get("duration_ms"))
            yield SpanRecord(event.number("rank"), name, phase, event.number("step"), time, seconds)

    def _pair(self, key: tuple[str | None, str], phase: Phase, time: float, told_ms: object) -> float | None:
        if phase is Phase.START:
            self._open.append((key, time))
            del self._open[:-MAX_OPEN_SPANS]
        elif phase is Phase.ERROR:
            self._failed.add(key)
        else:
            began = self._close(key)
            if key in self._failed:
                self._failed.discard(key)
                return None
            if began is not None and time >= began:
                return time - began
            return told_ms / 1000 if isinstance(told_ms, int | float) else None
        return None

    def _close(self, key: tuple[str | None, str]) -> float | None:
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index][0] == key:
                return self._open.pop(index)[1]
        return None


_PHASES = frozenset(phase.value for phase in Phase)
