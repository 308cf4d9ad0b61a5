"""Which series can be believed? None that tells the impossible, or that others of the same subject contradict."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from oncall.readings.metric_set import Curve, Labels, QueryAnswer
from oncall.readings.plausible import plausible, shown
from oncall.readings.series_join import Joiner, Subject

_ALIKE = 0.1
"""Two scrapes of one value differ by a moment; by more than this part they are not of one GPU, rank or host."""

Points = tuple[tuple[float, float], ...]
Merge = Callable[[Iterable[float]], float]


def any_bit(values: Iterable[float]) -> float:
    """All bits that any value has set."""
    return float(reduce(or_, (int(value) for value in values), 0))


@dataclass(frozen=True)
class Fit:
    """How series become values of ranks, or of hosts where `by_host` says so.

    `name` picks those with this label `name`; `several` makes one value of several series of one subject.
    """

    signal: str
    joiner: Joiner
    by_host: bool
    name: str | None
    several: Merge

    @property
    def one_each(self) -> bool:
        """Whether several series of one subject are told by several exporters, not of several parts of it."""
        return self.several in {max, any_bit}

    def subjects(self, labels: Labels) -> tuple[Subject, ...]:
        """Whom a series is about; nobody where it is none of those picked, or names none of the run."""
        if self.name is not None and labels.get("name") != self.name:
            return ()
        if self.by_host:
            host = self.joiner.host(labels)
            return () if host is None else (host,)
        return self.joiner.ranks_of(labels)


@dataclass(frozen=True)
class Believed:
    """The points of each subject, one at a time, and why what others tell was set aside."""

    points: Mapping[Subject, Points]
    aside: Mapping[Subject, str]


def believed(answer: QueryAnswer, fit: Fit) -> Believed:
    """Each subject's points over a stretch; none of a subject of which any series cannot be believed."""
    curves: dict[Subject, list[Points]] = {}
    aside = {who: "its newest value is no number" for labels in answer.broken for who in fit.subjects(labels)}
    misplaced = _misplaced(answer, fit)
    least, greatest = plausible(fit.signal, answer.end)
    for index, curve in enumerate(answer.curves):
        points, odd = _possible(curve, least, greatest)
        why = misplaced.get(index) or _impossible(curve, odd, fit.signal)
        for who in fit.subjects(curve.labels):
            curves.setdefault(who, []).append(points)
            if why is not None:
                aside[who] = why
    for who, own in curves.items():
        if len(own) > 1 and fit.one_each and (differ := _disagreement(own, fit)):
            aside.setdefault(who, differ)
    merged = {who: own[0] if len(own) == 1 else _merged(own, fit.several) for who, own in curves.items()}
    return Believed({who: points for who, points in merged.items() if who not in aside}, aside)


def _possible(curve: Curve, least: float, greatest: float) -> tuple[Points, Points]:
    """The points of a series that can be, and those that cannot."""
    odd = tuple(point for point in curve.points if not least <= point[1] <= greatest)
    if not odd:
        return curve.points, ()
    return tuple(point for point in curve.points if least <= point[1] <= greatest), odd


def _impossible(curve: Curve, odd: Points, signal: str) -> str | None:
    """The impossible value that a series tells last, or most of the time; None of one that had a moment's."""
    if not odd or (odd[-1] != curve.points[-1] and 2 * len(odd) <= len(curve.points)):
        return None
    return f"{shown(signal, odd[-1][1])} cannot be"


def _misplaced(answer: QueryAnswer, fit: Fit) -> dict[int, str]:
    """The series, by position, that name a rank and a host where it does not run.

    Where all of several name one host, that is where their exporter runs.
    """
    named = {index: fit.joiner.host_beside_rank(curve.labels) for index, curve in enumerate(answer.curves)}
    told = {index: host for index, host in named.items() if host is not None and not fit.by_host}
    if len(told) > 1 and len(set(told.values())) == 1:
        return {}
    return {
        index: f"its labels name {host}, where that rank does not run"
        for index, host in told.items()
        if fit.joiner.runs_elsewhere(answer.curves[index].labels, host)
    }


def _disagreement(curves: Sequence[Points], fit: Fit) -> str | None:
    """Where series of one subject differ most of the time that they share."""
    first, *others = (dict(points) for points in curves)
    for other in others:
        shared = first.keys() & other.keys()
        apart = [at for at in shared if not _alike(first[at], other[at], fit)]
        if 2 * len(apart) > len(shared):
            one, two = (shown(fit.signal, series[max(apart)]) for series in (first, other))
            return f"its series disagree, {one} and {two}"
    return None


def _alike(one: float, other: float, fit: Fit) -> bool:
    if fit.several is any_bit:
        return one == other
    return abs(one - other) <= _ALIKE * max(abs(one), abs(other))


def _merged(curves: Iterable[Points], several: Merge) -> Points:
    by_time: dict[float, list[float]] = {}
    for points in curves:
        for at, value in points:
            by_time.setdefault(at, []).append(value)
    return tuple((at, several(by_time[at])) for at in sorted(by_time))
