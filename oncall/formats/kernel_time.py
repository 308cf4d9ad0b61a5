"""Brings the times of a kernel log to UTC, each with how far it may be off.

A kernel log holds four kinds of time: a full stamp with zone; a local one without zone; one without year; seconds of
the kernel's own clock, which counts from boot, is not steered by NTP, and so drifts.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from oncall.formats.event import Event

KERNEL_CLOCK_DRIFT = 1e-4
"""Allowance for the kernel's log clock, by the time since boot: twice the 50 ppm that crystals are sold with."""

_STAMP = re.compile(
    r"(?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d)T(?P<hour>\d\d):(?P<minute>\d\d)"
    r"(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?(?P<zone>Z|[+-]\d\d:\d\d)?"
)
_LEAP_YEARS_APART = 8
_TAKEN_IN_S = 0.1
"""How late a journal that keeps up takes a kernel message in, generously."""
_NEAR_S = 600.0
"""Anchors so near to each other differ by delays, not by drift; the least late of them is the best."""
_SLACK_S = 60.0


@dataclass(frozen=True, slots=True)
class Anchor:
    """What the kernel's own clock showed, in seconds since boot, for a message that a journal took in at `at`."""

    uptime_s: float
    at: datetime


@dataclass(frozen=True, slots=True)
class NodeClock:
    """What was learned of a node's clocks when its log was read.

    `now` is the node's own UTC time then and `error_s` how far it may be from true UTC (offset to the console's clock
    and half the round trip). `uptime_s` is the first number of `/proc/uptime` at that moment, `zone` the node's time
    zone; None where the node did not say. `anchors` tie the kernel's clock to the system's, ascending; the uptime is by
    the system's clock, so without them a line of the kernel's clock is off by what that has drifted since boot.
    """

    now: datetime
    error_s: float
    uptime_s: float | None = None
    zone: tzinfo | None = None
    anchors: tuple[Anchor, ...] = ()


@dataclass(frozen=True, slots=True)
class EventTime:
    """A UTC time; the event lies within `uncertainty_s` seconds before or after it."""

    at: datetime
    uncertainty_s: float


@dataclass(frozen=True, slots=True)
class Unplaced:
    """An event that cannot be brought to UTC, and why."""

    reason: str


def event_time(event: Event, clock: NodeClock | None) -> EventTime | Unplaced:
    """When an event of `read_kernel` happened.

    Without a clock only stamps that hold their zone and year are placed, and the node's own clock error stays out of
    the uncertainty.
    """
    ts, uptime_s = event.fields.get("ts"), event.fields.get("uptime_s")
    dated, since_s = event.fields.get("dated_ts"), event.fields.get("since_dated_s")
    if isinstance(ts, str):
        return _stamped(ts, clock)
    if isinstance(dated, str) and isinstance(since_s, float):
        base = _stamped(dated, clock)
        if isinstance(base, Unplaced):
            return base
        return EventTime(base.at + timedelta(seconds=since_s), base.uncertainty_s)
    if isinstance(uptime_s, float):
        return _since_boot(uptime_s, clock)
    return Unplaced("the line holds no time")


def _stamped(ts: str, clock: NodeClock | None) -> EventTime | Unplaced:
    found = _STAMP.fullmatch(ts)
    if found is None:
        return Unplaced(f"the time {ts} cannot be read")
    if found["zone"] is not None and found["year"] is not None:
        at = _datetime(found, int(found["year"]), _zone(found["zone"]))
    elif clock is None:
        return Unplaced("the line's time has no zone, and nothing is known of the node's clock")
    elif clock.zone is None:
        return Unplaced("the line's time is local, and the node's time zone is not known")
    else:
        at = _local(found, clock.now, clock.zone)
    if at is None:
        return Unplaced(f"there is no such time as {ts}")
    uncertainty_s = _resolution_s(found) + (0.0 if clock is None else clock.error_s)
    if found["zone"] is None and found["year"] is not None:
        uncertainty_s += _human_drift_s(at, clock)
    return EventTime(at, uncertainty_s)


def _local(found: re.Match[str], now: datetime, zone: tzinfo) -> datetime | None:
    """A line without year is of the latest year that puts it no more than a day, for wrong clocks, into the future."""
    if found["year"] is not None:
        return _datetime(found, int(found["year"]), zone)
    this_year = now.astimezone(zone).year + 1
    for year in range(this_year, this_year - _LEAP_YEARS_APART - 1, -1):
        at = _datetime(found, year, zone)
        if at is not None and at <= now + timedelta(days=1):
            return at
    return None


def _datetime(found: re.Match[str], year: int, zone: tzinfo) -> datetime | None:
    microsecond = int((found["fraction"] or "0").ljust(6, "0")[:6])
    month, day, hour, minute, second = (int(found[name] or 0) for name in ("month", "day", "hour", "minute", "second"))
    try:
        return datetime(year, month, day, hour, minute, second, microsecond, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _zone(text: str) -> tzinfo:
    if text == "Z":
        return UTC
    offset = timedelta(hours=int(text[1:3]) % 24, minutes=int(text[4:6]) % 60)
    return timezone(-offset if text[0] == "-" else offset)


def _resolution_s(found: re.Match[str]) -> float:
    if found["second"] is None:
        return 60.0
    return 1.0 if found["fraction"] is None else float(10.0 ** -len(found["fraction"]))


def _human_drift_s(at: datetime, clock: NodeClock | None) -> float:
    """`dmesg -T` computes its stamps from the kernel's clock, so they drift as that does; by how long ago boot was."""
    if clock is None or clock.uptime_s is None:
        return 0.0
    since_boot_s = clock.uptime_s - (clock.now - at).total_seconds()
    return max(since_boot_s, 0.0) * KERNEL_CLOCK_DRIFT


def _since_boot(uptime_s: float, clock: NodeClock | None) -> EventTime | Unplaced:
    if clock is None or clock.uptime_s is None:
        return Unplaced("the line counts from boot, and the node's uptime is not known")
    if uptime_s > clock.uptime_s * (1 + KERNEL_CLOCK_DRIFT) + 1.0:
        return Unplaced("the line is from before the last boot")
    anchor = _nearest(uptime_s, clock.anchors)
    if anchor is not None:
        apart_s = uptime_s - anchor.uptime_s
        drift_s = abs(apart_s) * KERNEL_CLOCK_DRIFT
        return EventTime(anchor.at + timedelta(seconds=apart_s), clock.error_s + _TAKEN_IN_S + drift_s)
    at = clock.now - timedelta(seconds=clock.uptime_s - uptime_s)
    return EventTime(at, clock.error_s + uptime_s * KERNEL_CLOCK_DRIFT)


def tied(clock: NodeClock, anchors: Iterable[Anchor]) -> NodeClock:
    """The clock with the anchors that can be believed: of those near to each other the one that was least late.

    An anchor that puts the boot where neither clock can have been is of a system clock that was set since, or of
    another boot.
    """
    if clock.uptime_s is None:
        return clock
    boot = clock.now - timedelta(seconds=clock.uptime_s)
    most_s = clock.uptime_s * KERNEL_CLOCK_DRIFT + _SLACK_S
    best: dict[int, Anchor] = {}
    for anchor in anchors:
        if abs((_boot(anchor) - boot).total_seconds()) <= most_s:
            near = int(anchor.uptime_s // _NEAR_S)
            best[near] = min(best.get(near, anchor), anchor, key=_boot)
    return replace(clock, anchors=tuple(best[near] for near in sorted(best)))


def _nearest(uptime_s: float, anchors: Sequence[Anchor]) -> Anchor | None:
    at = bisect_left(anchors, uptime_s, key=lambda anchor: anchor.uptime_s)
    return min(anchors[max(at - 1, 0) : at + 1], key=lambda anchor: abs(anchor.uptime_s - uptime_s), default=None)


def _boot(anchor: Anchor) -> datetime:
    return anchor.at - timedelta(seconds=anchor.uptime_s)
