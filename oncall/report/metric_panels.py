"""The questions of the slowdown tree side by side: each query, its most telling rows, and the verdict on them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from oncall.readings.case import Case
from oncall.readings.data_share import data_share
from oncall.readings.few_or_all import Phase, few_or_all, phases
from oncall.readings.finding import Judgement
from oncall.readings.fragmentation import fragmentation
from oncall.readings.host_memory import host_memory, memory_limit
from oncall.readings.links import links
from oncall.readings.log_volume import log_volume
from oncall.readings.measured import Measured, measure, typical
from oncall.readings.series_join import Subject
from oncall.readings.slowness import slowness
from oncall.readings.suspected import suspected_ranks
from oncall.readings.throttling import clock_limit, throttling
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
_LINK_COUNTERS = ("nvlink_crc_flit", "nvlink_crc_data", "nvlink_replay", "nvlink_recovery", "pcie_replay")


@dataclass(frozen=True)
class _Shown:
    """A question with its reading, and the series that prove it, those furthest on the `bad` side first.

    The threshold is in the unit of the signal; values are shown divided by `scale`, in `unit`, None being the signal's.
    """

    question: str
    judge: Callable[[Case], Judgement]
    series: Callable[[Case], Measured]
    bad: Callable[[Case], Side] = lambda _: "above"
    threshold: Callable[[Case], float | None] = lambda _: None
    unit: str | None = None
    scale: float = 1.0


def _signal(name: str, *, by_host: bool = False) -> Callable[[Case], Measured]:
    return lambda case: measure(case, name, by_host=by_host)


def _telling_phase(case: Case) -> Phase:
    """The phase in which ranks meet, where one is known: it shows who waits least."""
    told = sorted(phases(case), key=lambda phase: not phase.meeting)
    return told[0] if told else Phase("communication wait", measure(case, "comm_wait_s"), meeting=True)


def _phase_side(case: Case) -> Side:
    return "below" if _telling_phase(case).meeting else "above"


def _phase_limit(case: Case) -> float | None:
    phase, factor = _telling_phase(case), case.run.thresholds.straggler_factor
    middle = typical(phase.measured.now)
    if middle is None:
        return None
    return middle / factor if phase.meeting else middle * factor


def _worst_counter(case: Case) -> Measured:
    """The link counter that grew most anywhere."""
    counters = [measure(case, name, several=sum) for name in _LINK_COUNTERS]
    return max(counters, key=lambda counter: max(counter.now.values(), default=-1.0))


def _slow_limit(case: Case) -> float | None:
    before = typical(measure(case, "step_time_s").before)
    return None if before is None else before * case.run.thresholds.slow_factor


def _data_limit(case: Case) -> float | None:
    step_s = typical(measure(case, "step_time_s").now)
    return None if step_s is None else step_s * case.run.thresholds.data_share


def _log_limit(case: Case) -> float | None:
    before = typical(measure(case, "log_bytes_total").before)
    return None if before is None else before * case.run.thresholds.growth_factor


def _below(_: Case) -> Side:
    return "below"


_SHOWN = (
    _Shown("Slower than before?", slowness, _signal("step_time_s"), threshold=_slow_limit),
    _Shown(
        "Few ranks or everyone?",
        few_or_all,
        lambda case: _telling_phase(case).measured,
        bad=_phase_side,
        threshold=_phase_limit,
    ),
    _Shown("Throttled?", throttling, _signal("sm_clock"), bad=_below, threshold=clock_limit),
    _Shown("Links?", links, _worst_counter, threshold=lambda _: 0.0),
    _Shown("Data?", data_share, _signal("data_wait_s"), threshold=_data_limit),
    _Shown("Fragmentation?", fragmentation, _signal("num_alloc_retries"), unit="retries"),
    _Shown("Logs, checkpoints?", log_volume, _signal("log_bytes_total"), threshold=_log_limit, unit="kB", scale=1e3),
    _Shown(
        "Host memory?",
        host_memory,
        _signal("host_memory_available", by_host=True),
        bad=_below,
        threshold=memory_limit,
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
    judged, measured, threshold = shown.judge(case), shown.series(case), shown.threshold(case)
    return Panel(
        question=shown.question,
        query=measured.query,
        verdict=_VERDICTS.get(judged.verdict, "unknown"),
        reason=judged.reason,
        unit=SIGNALS[measured.signal].unit if shown.unit is None else shown.unit,
        threshold=None if threshold is None else threshold / shown.scale,
        bad=shown.bad(case),
        newest_age_s=None if measured.newest_age_s is None else round(measured.newest_age_s, 1),
        rows=tuple(_rows(case, measured, shown)),
    )


def _rows(case: Case, measured: Measured, shown: _Shown) -> Iterator[PanelRow]:
    sign = 1.0 if shown.bad(case) == "below" else -1.0
    ordered = sorted(measured.now.items(), key=lambda item: (sign * item[1], str(item[0])))
    for who, value in ordered[:_MOST_ROWS]:
        before = measured.before.get(who)
        place = case.ranks.at(who) if isinstance(who, int) else None
        yield PanelRow(
            who=_name(case, who),
            value=value / shown.scale,
            before=None if before is None else before / shown.scale,
            rank=who if isinstance(who, int) else None,
            host=place.host if place else who if isinstance(who, str) else None,
            gpu_index=place.gpu_index if place else None,
            history=tuple(None if at is None else at / shown.scale for at in measured.history(who)),
        )


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
