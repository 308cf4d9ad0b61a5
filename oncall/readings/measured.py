"""One signal of the whole run: each rank's or host's value now and before, what is stale, and what is missing."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from oncall.readings.believed import Believed, Fit, Merge, Points, any_bit, believed
from oncall.readings.case import Case
from oncall.readings.metric_set import AskedRange, QueryAnswer, metric_set
from oncall.readings.series_join import Joiner, Subject, joiner, labels_seen
from oncall.run.nodes import fold_hosts, fold_ranks
from oncall.signals.selectors import newest_query
from oncall.signals.signal import Source
from oncall.signals.vocabulary import SIGNALS

_SERIES = ("metrics", "baseline")
_NOW, _THEN, _NEWEST = "now", "then", "newest"
_LAST_STEP = "last_step_completed_timestamp_seconds"
_TELL_WHO_IS_BEHIND = (_LAST_STEP, "step_time_s_p50")

_LATEST = frozenset(
    {
        *("step", _LAST_STEP, "attempt_start_timestamp_seconds", "finished", "loss_is_finite", "xid", "ecc_dbe"),
        *("num_alloc_retries", "ckpt_duration_s", "ckpt_failed_total", "restart_total", "ib_state", "ib_rate"),
    }
)
"""Signals that tell what stands now, not how something goes: of a stretch their last value counts, not the median."""

_NOTHING = Believed({}, {})


@dataclass(frozen=True)
class Measured:
    """A signal by subject. A value speaks for its whole stretch; a subject that is `stale` (age in s) has none now.

    Nor has one that was set `aside`, with why its series cannot be believed, be it now or before. `stretches` holds
    each subject's points of the stretch before and of that now, on their grids. `problem` says why nothing or not all
    is known; `labels` shows a series where none fits the run. `off` is a signal that the run file declares this site to
    be without. `end` is the moment asked for, in unix seconds.
    """

    signal: str
    query: str = ""
    now: Mapping[Subject, float] = field(default_factory=dict)
    before: Mapping[Subject, float] = field(default_factory=dict)
    stretches: tuple[tuple[AskedRange | None, Mapping[Subject, Points]], ...] = ()
    stale: Mapping[Subject, float | None] = field(default_factory=dict)
    aside: Mapping[Subject, str] = field(default_factory=dict)
    newest_age_s: float | None = None
    problem: str | None = None
    labels: str | None = None
    off: bool = False
    end: float | None = None

    def history(self, who: Subject) -> tuple[float | None, ...]:
        """The points before and now, oldest first, a gap between them and any other as None."""
        shown = [grid.on_grid(points[who]) for grid, points in self.stretches if grid is not None and who in points]
        return tuple(value for index, each in enumerate(shown) for value in ((None, *each) if index else each))

    def lacks(self, subjects: Iterable[Subject]) -> str | None:
        """Why this does not speak for all of the subjects; None where it does, or where the site is without it.

        Without any subject, one value is enough.
        """
        if self.off:
            return None
        wanted = tuple(subjects)
        missing = [who for who in wanted if who not in self.now]
        if self.now and not missing and self.problem is None:
            return None
        return f"{self.signal}: {self._why(missing)}"

    def _why(self, missing: list[Subject]) -> str:
        if self.problem is not None:
            return self.problem
        odd = [who for who in (missing or self.aside) if who in self.aside]
        if odd:
            return f"set aside for {_fold(odd)}, {self.aside[odd[0]]}"
        if not self.now and self.labels is not None:
            return f"no series fits the ranks or hosts of this run; labels seen: {self.labels}"
        stale = [who for who in (missing or self.stale) if who in self.stale]
        if stale:
            return f"stale for {_fold(stale)}, {_age(self.stale[who] for who in stale)}"
        return "no series" + (f" for {_fold(missing)}" if self.now else "")


def _fold(subjects: Iterable[Subject]) -> str:
    chosen = list(subjects)
    ranks = [who for who in chosen if isinstance(who, int)]
    return f"ranks {fold_ranks(ranks)}" if ranks else fold_hosts([who for who in chosen if isinstance(who, str)])


def _age(ages: Iterable[float | None]) -> str:
    known = [age for age in ages if age is not None]
    return f"newest sample {min(known):.0f} s old" if known else "its series ended"


def measure(
    case: Case, signal: str, *, by_host: bool = False, name: str | None = None, several: Merge = max
) -> Measured:
    """A signal, joined to the ranks of the run, or to its hosts.

    `name` picks the series with this label `name` (a span's); `several` makes one value of several series of one
    subject. Of a stretch the median counts, of bits (`any_bit`) all that were set, of what stands now the last value.
    """
    return case.once(
        (measure, signal, by_host, name, several),
        _SERIES,
        lambda: _measure(case, signal, Fit(signal, _joiner(case), by_host, name, several)),
    )


def _joiner(case: Case) -> Joiner:
    return case.once(joiner, (), lambda: joiner(case))


def _measure(case: Case, signal: str, fit: Fit) -> Measured:
    if case.run.signals.get(signal) == "":
        return Measured(signal, off=True, problem="the run file says that this site is without it")
    answers = case.view("metrics", metric_set)
    if answers is None:
        return Measured(signal, problem=_why_unasked(case))
    answer = answers.get(signal)
    now = answer.parts.get(_NOW) if answer else None
    if answer is None or now is None:
        return Measured(signal, problem=(answer.problem if answer else None) or "not asked")
    before = (case.view("baseline", metric_set) or {}).get(signal)
    then = before.parts.get(_THEN) if before else None
    told, told_before = believed(now, fit), believed(then, fit) if then else _NOTHING
    values = {who: _of_stretch(own, fit) for who, own in told.points.items()}
    earlier = {who: _of_stretch(own, fit) for who, own in told_before.points.items()}
    newest = answer.parts.get(_NEWEST)
    ages = _ages(newest, fit)
    stale = _stale(case, signal, values, ages)
    # What has points in the stretch but no newest sample has ended within it.
    ended = {who for who in values if newest is not None and who not in ages}
    gone = {who for who in earlier if who not in values and who not in told.aside}
    stale |= {who: ages.get(who) for who in (*ended, *gone)}
    undated = newest is None and newest_query(now.query) is not None
    return Measured(
        signal=signal,
        query=now.query,
        now={} if undated else {who: value for who, value in values.items() if who not in stale},
        before=earlier,
        stretches=((then.asked if then else None, told_before.points), (now.asked, told.points)),
        stale=stale,
        aside={**told_before.aside, **told.aside},
        newest_age_s=min((ages[who] for who in ages), default=None),
        problem=answer.problem or ("how old its samples are is not known" if undated else None),
        labels=_labels(now) if not values and not told.aside else None,
        end=now.end,
    )


def _of_stretch(points: Points, fit: Fit) -> float:
    values = [value for _, value in points]
    if fit.signal in _LATEST:
        return values[-1]
    return fit.several(values) if fit.several is any_bit else statistics.median(values)


def _labels(answer: QueryAnswer) -> str | None:
    return labels_seen(curve.labels for curve in answer.curves) if answer.curves else None


def _why_unasked(case: Case) -> str:
    return "Prometheus was not asked" if case.run.prometheus.url else "the run file names no `prometheus.url`"


def _ages(answer: QueryAnswer | None, fit: Fit) -> dict[Subject, float]:
    """How old each subject's newest sample was when it was asked for, in seconds."""
    newest: dict[Subject, float] = {}
    for curve in answer.curves if answer else ():
        for who in fit.subjects(curve.labels):
            newest[who] = max(newest.get(who, 0.0), curve.points[-1][1])
    return {who: max(0.0, answer.end - at) for who, at in newest.items()} if answer else {}


def _stale(
    case: Case, signal: str, values: Mapping[Subject, float], ages: Mapping[Subject, float]
) -> dict[Subject, float | None]:
    limit_s = case.run.thresholds.stale_s
    stale: dict[Subject, float | None] = {who: ages[who] for who in values if ages.get(who, 0.0) > limit_s}
    if signal not in _TELL_WHO_IS_BEHIND and SIGNALS[signal].source is Source.ONCALL:
        stale |= {who: age for who, age in behind(case).items() if who in values}
    return stale


def behind(case: Case) -> dict[Subject, float]:
    """Ranks whose exporter shows an older step than the run has come to, with how much older in seconds.

    The ranks of a run end their steps together, so this is an exporter that has stopped reading, not a slow rank.
    """
    last = measure(case, _LAST_STEP)
    newest = max(last.now.values(), default=0.0)
    limits = case.run.thresholds
    times = measure(case, "step_time_s_p50").now.values() if last.now else ()
    limit_s = max(limits.stale_s, limits.stalled_factor * (statistics.median(times) if times else 0.0))
    return {who: newest - at for who, at in last.now.items() if newest - at > limit_s}


def span_names(case: Case) -> tuple[str, ...]:
    """The names of the spans that any rank tells, in order."""
    answer = (case.view("metrics", metric_set) or {}).get("span_seconds")
    now = answer.parts.get(_NOW) if answer else None
    return tuple(sorted({curve.labels.get("name", "") for curve in now.curves} - {""})) if now else ()


def typical(values: Mapping[Subject, float]) -> float | None:
    """The median over all subjects; None where there is none."""
    return statistics.median(values.values()) if values else None
