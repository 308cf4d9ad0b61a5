"""What Prometheus answered, signal by signal: the series of each stretch, and when they were last sampled."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from oncall.bundle.evidence import Evidence, Part
from oncall.formats.metrics_query import Answer, Series

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Curve:
    """One series: its labels and its points (unix seconds, value), oldest first, without those that are no numbers."""

    labels: Labels
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class AskedRange:
    """The grid of a range query: start, end and step in unix seconds and seconds."""

    start: float
    end: float
    step: float

    def on_grid(self, points: tuple[tuple[float, float], ...]) -> tuple[float | None, ...]:
        """The points in the places of the grid; a gap is None."""
        known = {round((at - self.start) / self.step): value for at, value in points}
        return tuple(known.get(index) for index in range(round((self.end - self.start) / self.step) + 1))


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """The answer to one query. `curves` is empty where no series fits; `asked` is None for an instant query.

    `broken` are the labels of series whose newest point is no number.
    """

    query: str
    end: float
    asked: AskedRange | None
    curves: tuple[Curve, ...]
    broken: tuple[Labels, ...]


@dataclass(frozen=True)
class SignalAnswer:
    """All that was answered for one signal, read when it is looked at; `problem` is why there is not all of it."""

    evidence: Evidence
    name: str
    problem: str | None

    @cached_property
    def parts(self) -> Mapping[str, QueryAnswer]:
        """The answers by part; without those that are none of Prometheus' API."""
        told = ((part.name, _answer(part)) for part in self.evidence.parts(self.name))
        return {name: answer for name, answer in told if answer is not None}


MetricSet = Mapping[str, SignalAnswer]
"""Item → its answer."""


def metric_set(evidence: Evidence) -> MetricSet:
    """The answers of the `metrics` or the `baseline` probe."""
    missing = evidence.coverage.missing
    return {name: SignalAnswer(evidence, name, missing.get(name)) for name in evidence.asked}


def _answer(part: Part) -> QueryAnswer | None:
    """None for an answer that is none; why is the coverage's to say."""
    try:
        told = msgspec.json.decode(part.data, type=Answer)
        end = float(part.attributes["end"])
        grid = [float(part.attributes[name]) for name in ("start", "step") if name in part.attributes]
    except (msgspec.DecodeError, KeyError, ValueError):
        return None
    if told.data is None:
        return None
    asked = AskedRange(grid[0], end, grid[1]) if len(grid) == 2 and grid[1] > 0 else None
    series = [each for each in told.data.result if isinstance(each, Series)]
    return QueryAnswer(
        query=part.attributes.get("query", ""),
        end=end,
        asked=asked,
        curves=tuple(curve for each in series if (curve := _curve(each)).points),
        broken=tuple(each.metric for each in series if (given := _given(each)) and _number(given[-1][1]) is None),
    )


def _given(series: Series) -> Sequence[tuple[float, str]]:
    return series.values or ((series.value,) if series.value is not None else ())


def _curve(series: Series) -> Curve:
    points = ((at, _number(text)) for at, text in _given(series))
    return Curve(series.metric, tuple((at, value) for at, value in points if value is not None))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
