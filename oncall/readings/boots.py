"""Of which boot is a line of a kernel log? Logs on disk hold earlier ones, and stamps lack the year."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from oncall.formats.event import Event
from oncall.formats.kernel_time import KERNEL_CLOCK_DRIFT, EventTime, NodeClock

_BANNER = re.compile(rb"\[\s*0\.000000\].*Linux version ")
"""The kernel's first line after a boot (init/version.c)."""
_SLACK = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Boots:
    """When the node last booted, in UTC, and the 1-based line that begins that boot in its log; None is not known."""

    last: datetime | None
    first_line: int | None

    @classmethod
    def of(cls, lines: Sequence[bytes], clock: NodeClock | None) -> "Boots":
        """The last boot by the node's uptime and by the last banner in its log."""
        known = clock is not None and clock.uptime_s is not None
        last = clock.now - timedelta(seconds=clock.uptime_s or 0.0) if clock is not None and known else None
        banners = (number for number in range(len(lines), 0, -1) if _BANNER.search(lines[number - 1]))
        return cls(last, next(banners, None))

    def misplaced(self, event: Event, placed: EventTime | None) -> bool:
        """Whether an event is of an earlier boot but its time, if it has one, is not."""
        if self.last is None:
            return False
        if placed is not None and placed.at <= self.last + _SLACK:
            return False
        return self._stands_before(event) or self._counts_from_another(event, placed)

    def _stands_before(self, event: Event) -> bool:
        return self.first_line is not None and event.first_line < self.first_line

    def _counts_from_another(self, event: Event, placed: EventTime | None) -> bool:
        """A line that counts from boot more than has passed since, or to another moment than its stamp."""
        uptime_s = event.fields.get("uptime_s")
        if not isinstance(uptime_s, float) or self.last is None:
            return False
        if placed is None:
            return event.text("ts") is None
        began = placed.at - timedelta(seconds=uptime_s)
        return abs(began - self.last) > _SLACK + timedelta(seconds=uptime_s * KERNEL_CLOCK_DRIFT + placed.uncertainty_s)
