"""The time zone of a job's logs where it is not the node's: a container's is often UTC, whatever the node's is.

A stamp without a zone is read in the node's. Where the last thing that a log holds is a step line, the file was last
written when that step ended: a difference of whole half hours is one of zones.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from oncall.formats.event import Event
from oncall.formats.kernel_time import NodeClock
from oncall.readings.log_set import LogFile

_GRID = timedelta(minutes=30)
_MOST = timedelta(hours=26)
"""Zones lie between UTC-12 and UTC+14."""
_SLACK = timedelta(seconds=30)
"""What a stamp may lie before the write: buffers are written out late."""
_NONE = timedelta(0)


def shifts(files: Iterable[LogFile]) -> dict[str, timedelta]:
    """Host → by how much the stamps of its logs lie before the node's clock; hosts whose logs disagree are left out."""
    seen: dict[str, set[timedelta]] = {}
    for file in files:
        found = _shift(file)
        if found is not None:
            seen.setdefault(file.host, set()).add(found)
    return {host: found.pop() for host, found in seen.items() if len(found) == 1}


def log_clock(file: LogFile, shift: timedelta) -> NodeClock | None:
    """The clock by which a log's stamps are read: the node's, in the zone of the log."""
    clock = file.clock
    if clock is None or clock.zone is None or not shift:
        return clock
    offset = clock.now.astimezone(clock.zone).utcoffset() or _NONE
    return replace(clock, zone=timezone(offset - shift))


def stamped_at(event: Event, clock: NodeClock | None) -> datetime | None:
    """The UTC time that a step line itself tells; None where it tells none, or no zone is known for it."""
    text = event.text("ts")
    if text is None or clock is None or clock.zone is None:
        return None
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (told if told.tzinfo else told.replace(tzinfo=clock.zone)).astimezone(UTC)


def _shift(file: LogFile) -> timedelta | None:
    """None where the log does not tell: it ends with something else, or its last write is not known."""
    if file.last_step is None or not file.ends_with_step or file.age_s is None or file.clock is None:
        return None
    stamped = stamped_at(file.last_step, file.clock)
    if stamped is None:
        return None
    behind = file.clock.now - timedelta(seconds=file.age_s) - stamped
    whole = round(behind / _GRID) * _GRID
    near = abs(behind - whole) <= _SLACK and abs(whole) <= _MOST
    return whole if near else _NONE
