"""Puts causes before consequences: of a burst of events on many hosts, the first one and what it led to.

An event belongs to a cause that can lead to such a thing, may have come before it, and is near enough in time. Times
are intervals, since clocks are only so good: where two causes overlap, neither is said to be the first.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from oncall.formats.event import Event
from oncall.readings.incident_part import LEADS_TO, Part, Reach, part_of

AFTERMATH_S = 600.0
"""How long a fault goes on making kernel messages: GSP time-outs for minutes, then the channels of killed ranks."""
COLLECTIVE_S = 3600.0
"""How long after a cause a rank may give up: twice PyTorch's old default time-out of 30 minutes."""
IN_FLIGHT_S = 60.0
"""How long before a cause a collective may have begun that then never ended: one step."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event on a host at a UTC time, `uncertainty_s` seconds more or less; `at` is None when it is not known."""

    event: Event
    host: str
    at: datetime | None
    uncertainty_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Consequence:
    """Events of one kind and Xid or SXid code that a cause led to: `count` lines on `hosts`, from `first` on."""

    kind: str
    code: int | None
    count: int
    hosts: tuple[str, ...]
    first: Occurrence


@dataclass(frozen=True, slots=True)
class Incident:
    """What happened first and what it led to.

    `rivals` are first events of other incidents whose time overlaps, so that either may have been the earlier one; what
    the whole run suffers is then counted here only.
    """

    first: Occurrence
    led_to: tuple[Consequence, ...]
    rivals: tuple[Occurrence, ...] = ()


@dataclass(frozen=True, slots=True)
class IncidentOrder:
    """All incidents, the earliest first, and the events that have no time and so no place."""

    incidents: tuple[Incident, ...]
    unplaced: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True)
class _Moment:
    """An occurrence with its part and the bounds of its time, in seconds since 1970.

    A rank that gave up after waiting was hurt when it began to wait: `onset` is that, else the same as `earliest`.
    """

    what: Occurrence
    part: Part
    earliest: float
    latest: float
    onset: float

    @property
    def waited(self) -> bool:
        """Whether the event tells how long a rank had waited for another."""
        return self.onset < self.earliest

    @property
    def latest_cause(self) -> float:
        """The latest start of what may have led to this."""
        return self.onset + (self.latest - self.earliest) + IN_FLIGHT_S if self.waited else self.latest


@dataclass(slots=True)
class _Open:
    cause: _Moment
    effects: list[_Moment] = field(default_factory=list)


def order(occurrences: Iterable[Occurrence]) -> IncidentOrder:
    """Fold events of all hosts into incidents. Events that only inform are left out."""
    moments: list[_Moment] = []
    unplaced: list[Occurrence] = []
    for occurrence in occurrences:
        part = part_of(occurrence.event)
        if part is None:
            continue
        if occurrence.at is None:
            unplaced.append(occurrence)
        else:
            moments.append(_moment(occurrence, occurrence.at, part))
    incidents: list[_Open] = []
    causes = _Causes(slack_s=max((moment.latest - moment.earliest for moment in moments), default=0.0))
    for part in Part:
        _place(sorted((moment for moment in moments if moment.part is part), key=_by_time), incidents, causes)
    incidents.sort(key=lambda incident: _by_time(incident.cause))
    return IncidentOrder(tuple(_close(incident, incidents) for incident in incidents), tuple(unplaced))


def _moment(occurrence: Occurrence, at: datetime, part: Part) -> _Moment:
    seconds, slack_s = at.timestamp(), occurrence.uncertainty_s
    ran_ms = occurrence.event.number("ran_ms")
    waited_s = 0.0 if part is not Part.COLLECTIVE or ran_ms is None else ran_ms / 1000
    return _Moment(occurrence, part, seconds - slack_s, seconds + slack_s, seconds - slack_s - waited_s)


def _by_time(moment: _Moment) -> tuple[float, str, str, int]:
    """Lines of one log keep their order where its clock does not tell them apart."""
    event = moment.what.event
    return moment.earliest, moment.what.host, event.file, event.first_line


class _Causes:
    """First events found so far, by part, and by part and host, each list in time."""

    def __init__(self, slack_s: float) -> None:
        self._slack_s = slack_s
        self._lists: dict[tuple[Part, str | None], tuple[list[float], list[_Open]]] = {}

    def add(self, incident: _Open) -> None:
        """Take an incident among the causes of later moments."""
        cause = incident.cause
        for host in (None, cause.what.host):
            starts, incidents = self._lists.setdefault((cause.part, host), ([], []))
            at = bisect_right(starts, cause.earliest)
            starts.insert(at, cause.earliest)
            incidents.insert(at, incident)

    def of(self, moment: _Moment) -> _Open | None:
        """The incident that led to a moment: the same host's before the run's, the likelier cause before the other.

        Of several the earliest, but for a rank that tells how long it waited the last one before it began to wait.
        """
        hosts = (None,) if moment.part is Part.COLLECTIVE else (moment.what.host, None)
        for host in hosts:
            for part in Part:
                found = next((each for each in self._near(moment, part, host) if _leads(each.cause, moment)), None)
                if found is not None:
                    return found
        return None

    def _near(self, moment: _Moment, part: Part, host: str | None) -> Iterator[_Open]:
        starts, incidents = self._lists.get((part, host), ([], []))
        window_s = COLLECTIVE_S if moment.part is Part.COLLECTIVE else AFTERMATH_S
        oldest = bisect_left(starts, moment.onset - window_s - self._slack_s)
        newest = bisect_right(starts, moment.latest_cause)
        near = range(oldest, newest)
        return (incidents[at] for at in (reversed(near) if moment.waited else near))


def _place(moments: Iterable[_Moment], incidents: list[_Open], causes: _Causes) -> None:
    """Give each moment of one part to the incident that led to it; one without any starts its own."""
    for moment in moments:
        found = causes.of(moment)
        if found is not None:
            found.effects.append(moment)
            continue
        started = _Open(moment)
        incidents.append(started)
        causes.add(started)


def _leads(cause: _Moment, effect: _Moment) -> bool:
    """Whether one event may have led to another, by what they are, where, and when."""
    reach = LEADS_TO[cause.part].get(effect.part)
    if reach is None or (reach is Reach.HOST and cause.what.host != effect.what.host):
        return False
    window_s = COLLECTIVE_S if effect.part is Part.COLLECTIVE else AFTERMATH_S
    return cause.earliest <= effect.latest_cause and effect.onset - cause.latest <= window_s


def _close(incident: _Open, incidents: Iterable[_Open]) -> Incident:
    return Incident(incident.cause.what, _fold(incident.effects), _rivals(incident, incidents))


def _rivals(incident: _Open, incidents: Iterable[_Open]) -> tuple[Occurrence, ...]:
    cause = incident.cause
    return tuple(
        other.cause.what
        for other in incidents
        if other is not incident and other.cause.earliest <= cause.latest and cause.earliest <= other.cause.latest
    )


def _fold(effects: Sequence[_Moment]) -> tuple[Consequence, ...]:
    groups: dict[tuple[str, int | None], list[_Moment]] = {}
    for effect in sorted(effects, key=_by_time):
        event = effect.what.event
        code = event.number("xid") if event.kind == "xid" else event.number("sxid")
        groups.setdefault((event.kind, code), []).append(effect)
    return tuple(
        Consequence(
            kind=kind,
            code=code,
            count=sum(each.what.event.number("repeated") or 1 for each in group),
            hosts=tuple(dict.fromkeys(each.what.host for each in group)),
            first=group[0].what,
        )
        for (kind, code), group in groups.items()
    )
