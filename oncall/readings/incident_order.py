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
NFS_SILENCE_S = 180.0
"""How long NFS over TCP waits before it says that a server does not answer: timeo=600, retrans=2 (nfs(5))."""
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
    """What happened first and what it led to, in the order of time."""

    first: Occurrence
    led_to: tuple[Consequence, ...]


@dataclass(frozen=True, slots=True)
class IncidentOrder:
    """All incidents, the earliest first, and the events that have no time and so no place.

    `rivals` begin later incidents, but by the uncertainty of the clocks they may have come before the first; what the
    whole run suffers is counted with the first all the same.
    """

    incidents: tuple[Incident, ...]
    rivals: tuple[Occurrence, ...]
    unplaced: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True)
class _Moment:
    """An occurrence with its part and times in seconds since 1970: bounds of when it began, and when it ended at last.

    Some events are told late: a rank that gives up began to wait long before, and that is when it was hurt.
    """

    what: Occurrence
    part: Part
    earliest: float
    latest: float
    ended: float

    @property
    def waited(self) -> bool:
        """Whether a rank tells how long it had waited."""
        return self.part is Part.COLLECTIVE and self.latest < self.ended

    @property
    def latest_cause(self) -> float:
        """The latest start of what may have led to this."""
        return self.latest + (IN_FLIGHT_S if self.waited else 0.0)


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
    causes = _Causes(longest_s=max((moment.ended - moment.earliest for moment in moments), default=0.0))
    for part in Part:
        _place(sorted((moment for moment in moments if moment.part is part), key=_by_time), incidents, causes)
    incidents.sort(key=lambda incident: _by_time(incident.cause))
    return IncidentOrder(
        incidents=tuple(Incident(incident.cause.what, _fold(incident.effects)) for incident in incidents),
        rivals=tuple(other.cause.what for other in incidents[1:] if other.cause.earliest <= incidents[0].cause.latest),
        unplaced=tuple(unplaced),
    )


def _moment(occurrence: Occurrence, at: datetime, part: Part) -> _Moment:
    longest_s, shortest_s = told_late_s(occurrence.event)
    told, slack_s = at.timestamp(), occurrence.uncertainty_s
    return _Moment(occurrence, part, told - longest_s - slack_s, told - shortest_s + slack_s, told + slack_s)


def told_late_s(event: Event) -> tuple[float, float]:
    """How long before its line an event began, at most and at least.

    A collective says how long it ran. The kernel looks for hung tasks once in `seconds`, and reports one that did not
    move between two looks (kernel/hung_task.c). A soft lockup tells how long the CPU was held. NFS over TCP speaks up
    after its time-out and retries.
    """
    ran_ms, seconds = event.number("ran_ms"), event.number("seconds")
    if ran_ms is not None:
        return ran_ms / 1000, ran_ms / 1000
    if event.kind == "hung_task" and seconds is not None:
        return 2.0 * seconds, float(seconds)
    if event.kind == "soft_lockup" and seconds is not None:
        return float(seconds), float(seconds)
    return (NFS_SILENCE_S, 0.0) if event.kind == "nfs_not_responding" else (0.0, 0.0)


def _by_time(moment: _Moment) -> tuple[float, str, str, int]:
    """Lines of one log keep their order where its clock does not tell them apart."""
    event = moment.what.event
    return moment.earliest, moment.what.host, event.file, event.first_line


class _Causes:
    """Moments that may lead to others, by part, and by part and host, each list in time."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._lists: dict[tuple[Part, str | None], tuple[list[float], list[tuple[_Moment, _Open]]]] = {}

    def add(self, cause: _Moment, incident: _Open) -> None:
        """Take a moment among the causes of later ones, which then belong to its incident."""
        for host in (None, cause.what.host):
            starts, causes = self._lists.setdefault((cause.part, host), ([], []))
            at = bisect_right(starts, cause.earliest)
            starts.insert(at, cause.earliest)
            causes.insert(at, (cause, incident))

    def of(self, moment: _Moment) -> _Open | None:
        """The incident that led to a moment: the same host's before the run's, the likelier cause before the other.

        Of several the earliest, but for a rank that tells how long it waited the last one before it began to wait.
        """
        hosts = (None,) if moment.part is Part.COLLECTIVE else (moment.what.host, None)
        for host in hosts:
            for part, effects in LEADS_TO.items():
                reach = effects.get(moment.part)
                if reach is None or (host is None and reach is Reach.HOST):
                    continue
                near = self._near(moment, part, host)
                found = next((incident for cause, incident in near if _in_time(cause, moment)), None)
                if found is not None:
                    return found
        return None

    def _near(self, moment: _Moment, part: Part, host: str | None) -> Iterator[tuple[_Moment, _Open]]:
        starts, causes = self._lists.get((part, host), ([], []))
        oldest = bisect_left(starts, moment.earliest - _window_s(moment) - self._longest_s)
        newest = bisect_right(starts, moment.latest_cause)
        near = range(oldest, newest)
        return (causes[at] for at in (reversed(near) if moment.waited else near))


def _place(moments: Iterable[_Moment], incidents: list[_Open], causes: _Causes) -> None:
    """Give each moment of one part to the incident that led to it; one without any starts its own.

    Ranks that end, though themselves a consequence, make the system clean up long after the first cause.
    """
    for moment in moments:
        found = causes.of(moment)
        if found is None:
            found = _Open(moment)
            incidents.append(found)
            causes.add(moment, found)
            continue
        found.effects.append(moment)
        if moment.part is Part.COLLECTIVE:
            causes.add(moment, found)


def _window_s(effect: _Moment) -> float:
    return COLLECTIVE_S if effect.part is Part.COLLECTIVE else AFTERMATH_S


def _in_time(cause: _Moment, effect: _Moment) -> bool:
    """Whether one event may have come before another, and near enough to have led to it."""
    return cause.earliest <= effect.latest_cause and effect.earliest - cause.ended <= _window_s(effect)


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
