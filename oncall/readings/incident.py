"""The incidents of a run as its kernels and its training logs tell them together, causes before consequences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from oncall.formats.event import Event
from oncall.formats.kernel_time import EventTime, NodeClock, event_time
from oncall.formats.kinds import KINDS
from oncall.readings.case import Case
from oncall.readings.incident_order import Consequence, Incident, IncidentOrder, Occurrence, order
from oncall.readings.incident_part import Part, part_of
from oncall.readings.kernel_set import KernelEvent, kernel_set
from oncall.readings.log_set import LogSet, own_logs
from oncall.readings.log_zone import log_clock, shifts
from oncall.readings.outlived import last_step
from oncall.run.nodes import fold_hosts

HARDWARE = frozenset({Part.FAULT, Part.LINK})
_SUFFERING = frozenset({Part.COLLECTIVE, Part.STALL})
_FROM_LOGS = "nccl"


@dataclass(frozen=True)
class RunIncidents:
    """All recent incidents in the order of time; `kernel` holds the recent kernel events by host and line.

    `outlived` are recent ones after which a job that has stopped by now went on to finish steps: no incident is theirs.
    `stopping` are the keys of those that came just when it stopped and can stop a job, though often they pass.
    """

    order: IncidentOrder
    kernel: Mapping[tuple[str, int], KernelEvent]
    outlived: tuple[KernelEvent, ...] = ()
    stopping: frozenset[tuple[str, int]] = frozenset()

    def accuses(self, event: KernelEvent) -> bool:
        """Whether an event may be a cause by itself: it should wake somebody, or came just when the job stopped."""
        if event.ended and event.event.kind == "xid":
            return False
        return event.pages is not False or (event.host, event.event.first_line) in self.stopping

    def kernel_event(self, occurrence: Occurrence) -> KernelEvent | None:
        """The kernel event that an occurrence was made of, None where a training log told it."""
        if KINDS[occurrence.event.kind].family != "kernel":
            return None
        return self.kernel.get((occurrence.host, occurrence.event.first_line))

    def of(self, event: KernelEvent) -> Incident | None:
        """The incident that a kernel event began or belongs to; None for one without a time, or that only informs."""
        began = self._began.get((event.host, event.event.first_line))
        return began or self._held.get((event.event.kind, _code(event.event), event.host))

    @cached_property
    def _began(self) -> dict[tuple[str, int], Incident]:
        firsts = ((incident.first, incident) for incident in self.order.incidents)
        return {(first.host, first.event.first_line): each for first, each in firsts if self.kernel_event(first)}

    @cached_property
    def _held(self) -> dict[tuple[str, int | None, str], Incident]:
        """Consequences keep kind, code and hosts of their lines, not the lines; of several incidents the first."""
        return {
            (each.kind, each.code, host): incident
            for incident in reversed(self.order.incidents)
            for each in incident.led_to
            for host in each.hosts
        }


def run_incidents(case: Case) -> RunIncidents:
    """Order what the kernels logged of late and what the current attempt's logs say of collectives and workers."""
    kernels, logs = case.view("kernel", kernel_set), own_logs(case)
    last, all_recent = last_step(case), [e for e in (kernels.events if kernels else ()) if recent(case, e.latest)]
    outlived = tuple(event for event in all_recent if last is not None and last.outlived(event))
    events = [event for event in all_recent if last is None or not last.outlived(event)]
    occurrences = [Occurrence(e.event, e.host, e.at, e.uncertainty_s or 0.0) for e in events]
    occurrences += [each for each in _log_occurrences(case, logs) if recent(case, each.at)]
    stopping = [e for e in events if last is not None and part_of(e.event) in HARDWARE and last.came_with(e)]
    return RunIncidents(
        order=order(occurrences),
        kernel={(e.host, e.event.first_line): e for e in events},
        outlived=outlived,
        stopping=frozenset((e.host, e.event.first_line) for e in stopping),
    )


def recent(case: Case, at: datetime | None) -> bool:
    """Whether what happened then may belong to this stop; what has no time may."""
    return at is None or case.now - at <= timedelta(seconds=case.run.thresholds.recent_s)


def suffered(incident: Incident) -> bool:
    """Whether ranks waited in vain, ended or stood still as a consequence."""
    return any(part_of(each.first.event) in _SUFFERING for each in incident.led_to)


def overlap(one: Occurrence, other: Occurrence) -> bool:
    """Whether the clocks leave open which of two was first; what has no time may always have been."""
    if one.at is None or other.at is None:
        return True
    return abs((one.at - other.at).total_seconds()) <= one.uncertainty_s + other.uncertainty_s


def name(event: Event) -> str:
    """`Xid 79`, `SXid 20034`, `nccl timeout`."""
    for field, word in (("xid", "Xid"), ("sxid", "SXid")):
        if event.kind == field and (code := event.number(field)) is not None:
            return f"{word} {code}"
    return event.kind.replace("_", " ")


def consequence(each: Consequence) -> str:
    """`1,023 times nccl timeout on node[000-127] from 03:28:10 on`."""
    since = f" from {each.first.at:%H:%M:%S} on" if each.first.at else ""
    times = f"{each.count:,} times " if each.count > 1 else ""
    return f"{times}{name(each.first.event)} on {fold_hosts(each.hosts)}{since}"


def _code(event: Event) -> int | None:
    return event.number("xid") if event.kind == "xid" else event.number("sxid")


def _log_occurrences(case: Case, logs: LogSet | None) -> Iterator[Occurrence]:
    """What happened before the current attempt began led to nothing that this attempt suffers."""
    if logs is None:
        return
    ages = [age for (_, attempt), age in logs.attempt_ages_s.items() if attempt == logs.attempt]
    began = case.now - timedelta(seconds=max(ages)) if ages else None
    files = tuple(logs.current())
    behind = shifts(files)
    for file in files:
        clock = log_clock(file, behind.get(file.host, timedelta(0)))
        for event in file.events:
            if KINDS[event.kind].family != _FROM_LOGS:
                continue
            at, uncertainty_s = _placed(clock, event)
            if began is None or at is None or at >= began:
                yield Occurrence(event, file.host, at, uncertainty_s)


def _placed(clock: NodeClock | None, event: Event) -> tuple[datetime | None, float]:
    """A log's stamps are of the system's clock, unlike the kernel's own: the time since boot adds no drift."""
    placed = event_time(event, None if clock is None else replace(clock, uptime_s=None))
    return (placed.at, placed.uncertainty_s) if isinstance(placed, EventTime) else (None, 0.0)
