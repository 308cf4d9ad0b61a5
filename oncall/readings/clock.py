"""A node's own clock, so that ages of files and of kernel lines need no agreement between machines."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone

from oncall.bundle.evidence import NodeAnswer, Part
from oncall.formats.kernel_time import NodeClock


def node_clock(answer: NodeAnswer | None, parts: Iterable[Part]) -> NodeClock | None:
    """The clock from the `clock` part of a node's answer: epoch seconds, `±hhmm`, /proc/uptime; None where absent.

    How far it may be off is its distance from this machine's clock when the node was asked, connecting included.
    """
    for part in parts:
        words = part.text.split()
        if part.name != "clock" or len(words) < 3 or answer is None:
            continue
        try:
            now = datetime.fromtimestamp(float(words[0]), UTC)
            uptime_s = float(words[2])
            off_s = abs((now - answer.started).total_seconds())
            return NodeClock(now, off_s, uptime_s if math.isfinite(uptime_s) else None, _zone(words[1]))
        except (ValueError, OverflowError):
            return None
    return None


def age_s(clock: NodeClock | None, epoch_s: int | None) -> float | None:
    """Seconds between a time stamp of this node, in whole seconds since the epoch, and when the node was asked."""
    return None if clock is None or epoch_s is None else clock.now.timestamp() - epoch_s


def _zone(offset: str) -> timezone:
    sign = -1 if offset.startswith("-") else 1
    return timezone(sign * timedelta(hours=int(offset[1:3]), minutes=int(offset[3:5])))
