"""Of all incidents of a run those that a fault of its hardware began, and what each led to."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from oncall.formats.xid_catalogue import lookup
from oncall.readings.incident import HARDWARE, RunIncidents, consequence, overlap, suffered
from oncall.readings.incident_order import Incident, Occurrence
from oncall.readings.incident_part import part_of
from oncall.readings.kernel_set import KernelEvent


@dataclass(frozen=True, slots=True)
class Cause:
    """A fault that began an incident.

    `first` is the event that came first, `hurt` the worst of it on the same host, `events` all that should wake
    somebody with the first of them in front. `incident` is None for an event that has no time and so no place.
    """

    first: KernelEvent
    hurt: KernelEvent
    events: tuple[KernelEvent, ...]
    incident: Incident | None

    @property
    def consequences(self) -> tuple[str, ...]:
        """What it led to, in words, in the order of time."""
        return tuple(consequence(each) for each in self.incident.led_to) if self.incident else ()

    @property
    def suffered(self) -> bool:
        """Whether ranks waited in vain or ended as a consequence."""
        return self.incident is not None and suffered(self.incident)

    def rivals(self, other: "Cause") -> bool:
        """Whether the clocks leave open which of two was first."""
        return overlap(_occurrence(self.first), _occurrence(other.first))


def told_causes(
    incidents: RunIncidents, hosts: Collection[str], concerns: Callable[[KernelEvent], bool] = lambda _event: True
) -> tuple[Cause, ...]:
    """The causes that touch these hosts, the earliest first, with at least one event that `concerns` those asked about.

    Where ranks suffered from some of them, only those count, and others that may have come as early. Else what should
    wake somebody counts before what only came at the moment of the stop.
    """
    causes = [cause for cause in _causes(incidents, hosts) if any(concerns(event) for event in cause.events)]
    hurting = [cause for cause in causes if cause.suffered]
    if not hurting:
        grave = [cause for cause in causes if any(event.pages is not False for event in cause.events)]
        return tuple(grave or causes)
    return tuple(cause for cause in causes if cause in hurting or any(cause.rivals(other) for other in hurting))


def _causes(incidents: RunIncidents, hosts: Collection[str]) -> Iterator[Cause]:
    faults: dict[int, list[KernelEvent]] = {}
    unplaced: dict[tuple[str, str | None], list[KernelEvent]] = {}
    by_id = {id(incident): incident for incident in incidents.order.incidents}
    for event in incidents.kernel.values():
        if event.host not in hosts or not incidents.accuses(event):
            continue
        incident = incidents.of(event)
        if incident is None:
            unplaced.setdefault((event.host, event.pci_address), []).append(event)
        else:
            faults.setdefault(id(incident), []).append(event)
    for key, incident in by_id.items():
        if key in faults or _hurts_by_itself(incidents, incident, hosts):
            yield _cause(incidents, incident, faults.get(key, []))
    for events in unplaced.values():
        yield Cause(events[0], events[0], tuple(events), None)


def _hurts_by_itself(incidents: RunIncidents, incident: Incident, hosts: Collection[str]) -> bool:
    """A fault that no table would wake anybody for, but that ranks suffered from; none that a job goes on with."""
    event = incidents.kernel_event(incident.first)
    if event is None or event.host not in hosts or part_of(event.event) not in HARDWARE:
        return False
    code = event.event.number("xid")
    meaning = None if code is None else lookup(code)
    return suffered(incident) and (meaning is None or meaning.severity != "warn")


def _cause(incidents: RunIncidents, incident: Incident, faults: Iterable[KernelEvent]) -> Cause:
    """What came first is the cause if it is of the hardware; else the first that should wake somebody is."""
    known = tuple(faults)
    first = incidents.kernel_event(incident.first)
    if first is None or (known and part_of(first.event) not in HARDWARE):
        return Cause(known[0], known[0], known, None)
    hurt = next((event for event in known if event.host == first.host), first)
    return Cause(first, hurt, (first, *(event for event in known if event is not first)), incident)


def _occurrence(event: KernelEvent) -> Occurrence:
    return Occurrence(event.event, event.host, event.at, event.uncertainty_s or 0.0)
