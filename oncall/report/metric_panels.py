"""The questions of the slowdown tree side by side: each query, its most telling rows, and the verdict on them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from oncall.readings.believed import Merge
from oncall.readings.case import Case
from oncall.readings.data_share import data_share, data_waits
from oncall.readings.few_or_all import Phase, few_or_all, phases
from oncall.readings.finding import Judgement
from oncall.readings.fragmentation import fragmentation
from oncall.readings.host_memory import host_memory, memory_limits
from oncall.readings.links import link_counters, links
from oncall.readings.log_volume import log_volume
from oncall.readings.measured import Measured, measure, typical
from oncall.readings.series_join import Subject
from oncall.readings.slowness import slowness
from oncall.readings.suspected import suspected_ranks
from oncall.readings.throttling import clock_limits, throttling
from oncall.report.model import LastStep
from oncall.report.panels import Panel, PanelRow, PanelVerdict, Side
from oncall.signals.vocabulary import SIGNALS

_VERDICTS: Mapping[str, PanelVerdict] = {
    "suspect": "suspect",
    "few": "suspect",
    "slower": "suspect",
    "stalled": "suspect",
    "clear": "clear",
    "all": "clear",
    "steady": "clear",
}
_MOST_ROWS = 8


Limits = Mapping[Subject, float]
"""What the value of each rank or host is held against, in the unit of the signal."""


@dataclass(frozen=True)
class _Shown:
    """A question with its reading, and the series that prove it; values further on the `bad` side are more telling.

    `limits` are the reading's own. Values are shown divided by `scale`, in `unit`, None being the signal's.
    """

    question: str
    judge: Callable[[Case], Judgement]
    series: Callable[[Case], Measured]
    limits: Callable[[Case], Limits]
    bad: Callable[[Case], Side] = lambda _: "above"
    unit: str | None = None
    scale: float = 1.0


def _signal(name: str, *, by_host: bool = False, several: Merge = max) -> Callable[[Case], Measured]:
    return lambda case: measure(case, name, by_host=by_host, several=several)


def _telling_phase(case: Case) -> Phase:
    """The phase in which ranks meet, where one is known: it shows who waits least."""
    told = sorted(phases(case), key=lambda phase: not phase.meeting)
    return told[0] if told else Phase("communication wait", measure(case, "comm_wait_s"), meeting=True)


def _phase_side(case: Case) -> Side:
    return "below" if _telling_phase(case).meeting else "above"


def _phase_limits(case: Case) -> Limits:
    phase, factor = _telling_phase(case), case.run.thresholds.straggler_factor
    middle = typical(phase.measured.now)
    return _same(phase.measured, middle and (middle / factor if phase.meeting else middle * factor))


def _telling_counter(case: Case) -> Measured:
    """The link counter that is furthest beyond its limit anywhere, be it a GPU's or a port's."""

    def beyond(counter: Measured) -> float:
        limits = _growth_limits(case, counter)
        return max((value - limits[who] for who, value in counter.now.items()), default=-inf)

    return max(link_counters(case), key=beyond)


def _growth_limits(case: Case, counter: Measured) -> Limits:
    factor = case.run.thresholds.growth_factor
    return {who: factor * counter.before.get(who, 0.0) for who in counter.now}


def _link_limits(case: Case) -> Limits:
    return _growth_limits(case, _telling_counter(case))


def _slow_limits(case: Case) -> Limits:
    times = measure(case, "step_time_s")
    before = typical(times.before)
    return _same(times, before and before * case.run.thresholds.slow_factor)


def _data_limits(case: Case) -> Limits:
    share = case.run.thresholds.data_share
    return {who: share * step_s for who, step_s in measure(case, "step_time_s").now.items()}


def _retry_limits(case: Case) -> Limits:
    return measure(case, "num_alloc_retries").before


def _log_limits(case: Case) -> Limits:
    return _growth_limits(case, measure(case, "log_bytes_total", several=sum))


def _same(measured: Measured, limit: float | None) -> Limits:
    return {} if limit is None else dict.fromkeys(measured.now, limit)


def _below(_: Case) -> Side:
    return "below"


_SHOWN = (
    _Shown("Slower than before?", slowness, _signal("step_time_s"), _slow_limits),
    _Shown(
        "Few ranks or everyone?", few_or_all, lambda case: _telling_phase(case).measured, _phase_limits, bad=_phase_side
    ),
    _Shown("Throttled?", throttling, _signal("sm_clock"), clock_limits, bad=_below),
    _Shown("Links?", links, _telling_counter, _link_limits),
    _Shown("Data?", data_share, data_waits, _data_limits),
    _Shown("Fragmentation?", fragmentation, _signal("num_alloc_retries"), _retry_limits, unit="retries"),
    _Shown(
        "Logs, checkpoints?",
        log_volume,
        _signal("log_bytes_total", several=sum),
        _log_limits,
        unit="kB",
        scale=1e3,
    ),
    _Shown(
        "Host memory?",
        host_memory,
        _signal("host_memory_available", by_host=True),
        memory_limits,
        bad=_below,
        unit="GB",
        scale=1e9,
    ),
)


def metric_panels(case: Case) -> tuple[Panel, ...]:
    """All panels of a case; none where Prometheus was not asked."""
    if case.evidence("metrics") is None:
        return ()
    key = (metric_panels, suspected_ranks(case))
    return case.once(key, ("metrics", "baseline"), lambda: tuple(_panel(case, shown) for shown in _SHOWN))


def _panel(case: Case, shown: _Shown) -> Panel:
    judged, measured = shown.judge(case), shown.series(case)
    return Panel(
        question=shown.question,
        query=measured.query,
        verdict=_VERDICTS.get(judged.verdict, "unknown"),
        reason=judged.reason,
        unit=SIGNALS[measured.signal].unit if shown.unit is None else shown.unit,
        bad=shown.bad(case),
        newest_age_s=None if measured.newest_age_s is None else round(measured.newest_age_s, 1),
        rows=tuple(_rows(case, measured, shown, judged)),
    )


def _rows(case: Case, measured: Measured, shown: _Shown, judged: Judgement) -> Iterator[PanelRow]:
    sign = 1.0 if shown.bad(case) == "below" else -1.0
    limits, accused = shown.limits(case), _accused(measured, judged)
    order = sorted(measured.now, key=lambda who: (who not in accused, sign * measured.now[who], str(who)))
    for who in order[:_MOST_ROWS]:
        before, limit = measured.before.get(who), limits.get(who)
        place = case.ranks.at(who) if isinstance(who, int) else None
        yield PanelRow(
            who=_name(case, who),
            value=measured.now[who] / shown.scale,
            before=None if before is None else before / shown.scale,
            limit=None if limit is None else limit / shown.scale,
            accused=who in accused,
            rank=who if isinstance(who, int) else None,
            host=place.host if place else who if isinstance(who, str) else None,
            gpu_index=place.gpu_index if place else None,
            history=tuple(None if at is None else at / shown.scale for at in measured.history(who)),
        )


def _accused(measured: Measured, judged: Judgement) -> frozenset[Subject]:
    """Those whom the verdict names by this query; everyone, where a finding speaks of the whole run."""
    named: set[Subject] = set()
    for finding in judged.findings:
        if _VERDICTS.get(judged.verdict) == "suspect" and measured.query in {cite.text for cite in finding.cites}:
            named.update((*finding.ranks, *finding.hosts) or measured.now)
    return frozenset(named)


def _name(case: Case, who: Subject) -> str:
    return case.ranks.label(who) if isinstance(who, int) else who


def metrics_last_step(case: Case) -> LastStep | None:
    """The run's last step as its metrics tell it; None where they do not."""
    last, steps = measure(case, "last_step_completed_timestamp_seconds"), measure(case, "step")
    if not last.now or not steps.now or last.end is None:
        return None
    age_s = max(0.0, last.end - max(last.now.values()))
    normal_s = usual_step_s(case) or typical(measure(case, "step_time_s").now)
    return LastStep(step=int(max(steps.now.values())), age_s=round(age_s, 1), at_least=False, normal_s=normal_s)


def usual_step_s(case: Case) -> float | None:
    """The step time of the stretch that now is compared with, in seconds; None without one."""
    return typical(measure(case, "step_time_s").before)
