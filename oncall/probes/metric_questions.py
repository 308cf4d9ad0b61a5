"""What is asked of Prometheus: each signal's last minutes, the age of its samples, and the run's step time so far."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from oncall.readings.baseline import HISTORY
from oncall.readings.job_facts import RECENT_RESTARTS
from oncall.run.model import Run
from oncall.signals.hardware_signals import GPU_LINK_COUNTERS, PORT_COUNTERS
from oncall.signals.run_queries import run_queries
from oncall.signals.selectors import newest_query, selectors

ASKED = (
    *("step", "step_time_s", "step_time_s_p50", "last_step_completed_timestamp_seconds", "mfu", "mfu_baseline"),
    *("span_seconds", "comm_wait_s", "data_wait_s", "log_bytes_total", "loss_is_finite", "finished"),
    *("mem_inactive_split", "num_alloc_retries"),
    *("ckpt_duration_s", "ckpt_baseline_s", "ckpt_failed_total", "restart_total", "attempt_start_timestamp_seconds"),
    *("sm_clock", "gpu_temp", "memory_temp", "power", "clocks_event_reasons", "xid", "ecc_dbe"),
    *GPU_LINK_COUNTERS,
    *(*PORT_COUNTERS, "ib_state", "ib_rate"),
    *("host_memory_available", "host_memory_total"),
)
"""The signals that some reading looks at."""

WINDOW_S = 120
"""A stretch is this long and judged by its median: one step in many is scraped, and one alone may be a long one."""

POINTS = 5
_HISTORY_POINTS = 288


@dataclass(frozen=True, slots=True)
class Question:
    """One query of one item: an instant one where `step_s` is None, else a range. `part` names its answer."""

    part: str
    query: str
    end: datetime
    start: datetime | None = None
    step_s: float | None = None


def now_questions(run: Run, now: datetime, signals: tuple[str, ...] = ASKED) -> dict[str, tuple[Question, ...]]:
    """Item → its questions: the last stretch of each signal, the step time over the look-back, recent restarts."""
    promql = run_queries(run)
    asked: dict[str, tuple[Question, ...]] = {}
    for name in signals:
        if promql[name]:
            newest = newest_query(promql[name])
            ages = (Question("newest", newest, now),) if newest else ()
            asked[name] = (_stretch("now", promql[name], now), *ages)
    if "step_time_s" in asked:
        past_s = run.prometheus.lookback_s
        median = f"quantile(0.5, {promql['step_time_s']})"
        start = now - timedelta(seconds=past_s)
        asked[HISTORY] = (Question("history", median, now, start, max(1.0, past_s / _HISTORY_POINTS)),)
    restarts = selectors(promql["restart_total"])
    if "restart_total" in asked and restarts:
        window_s = round(run.thresholds.restart_window_s)
        asked[RECENT_RESTARTS] = (Question("now", f"max(increase({restarts[0]}[{window_s}s]))", now),)
    return asked


def baseline_questions(run: Run, end: datetime, signals: tuple[str, ...] = ASKED) -> dict[str, tuple[Question, ...]]:
    """Signal → its question: the good stretch that ends at `end`."""
    promql = run_queries(run)
    return {name: (_stretch("then", promql[name], end),) for name in signals if promql[name]}


def _stretch(part: str, query: str, end: datetime) -> Question:
    return Question(part, query, end, end - timedelta(seconds=WINDOW_S), WINDOW_S / (POINTS - 1))
