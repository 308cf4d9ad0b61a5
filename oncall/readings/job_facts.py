"""What is known of a job's progress, restarts and faults, from its metrics, else from the nodes' logs and kernels."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from oncall.readings.case import Case
from oncall.readings.hardware import ranks_of
from oncall.readings.kernel_set import kernel_set
from oncall.readings.log_set import LogSet, own_logs
from oncall.readings.loss import loss
from oncall.readings.measured import measure, typical
from oncall.readings.metric_set import metric_set
from oncall.readings.progress import newest_step, stalled_after_s, stands_still

RECENT_RESTARTS = "recent_restarts"
"""The item of the `metrics` probe that counts the restarts within the run's `restart_window_s`."""


@dataclass(frozen=True, slots=True)
class Xid:
    """An Xid of a GPU of the run; `at` is None where only the metrics know of it."""

    code: int
    host: str
    gpu: int | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What the states of a job follow from; None is not known. Times in seconds, back from now.

    `stalled` is whether the last step is older than the run's limit; `attempt_age_s` is since the launcher's newest
    start, `stepped_since` whether a step has ended since. `restarts` counts those within `restart_window_s`.
    """

    step: int | None = None
    step_age_s: float | None = None
    stalled: bool | None = None
    loss_finite: bool | None = None
    finished: bool = False
    attempt_age_s: float | None = None
    stepped_since: bool | None = None
    restarts: int | None = None
    xids: tuple[Xid, ...] = ()


_PROBES = ("metrics", "baseline", "logs", "kernel", "processes")


def job_facts(case: Case) -> JobFacts:
    """Gather them from whatever has answered."""
    return case.once(job_facts, _PROBES, lambda: _job_facts(case))


def _job_facts(case: Case) -> JobFacts:
    logs = own_logs(case)
    logged = _steps_by_logs(case, logs)
    steps = _steps_by_metrics(case) or logged
    return JobFacts(
        step=max((step for step in (steps.step, logged.step) if step is not None), default=None),
        step_age_s=steps.age_s,
        stalled=None if steps.age_s is None else steps.age_s > steps.limit_s,
        loss_finite=_loss_finite(case),
        finished=bool(max(measure(case, "finished").now.values(), default=0.0)),
        attempt_age_s=steps.attempt_age_s,
        stepped_since=steps.stepped_since,
        restarts=_restarts(case, logs),
        xids=tuple(_xids(case)),
    )


@dataclass(frozen=True, slots=True)
class _Steps:
    """`age_s` is None where it is not known; one over `limit_s` is that of a job that has stopped."""

    step: int | None
    age_s: float | None
    limit_s: float
    attempt_age_s: float | None
    stepped_since: bool | None


def _steps_by_metrics(case: Case) -> _Steps | None:
    last, steps = measure(case, "last_step_completed_timestamp_seconds"), measure(case, "step")
    if not last.now or last.end is None:
        return None
    normal = measure(case, "step_time_s_p50")
    age_s = max(0.0, last.end - max(last.now.values()))
    limit_s = stalled_after_s(case, typical(normal.now) or typical(normal.before))
    started = measure(case, "attempt_start_timestamp_seconds", by_host=True).now
    attempt_age_s = max(0.0, last.end - max(started.values())) if started else None
    step = int(max(steps.now.values())) if steps.now else None
    return _Steps(step, age_s, limit_s, attempt_age_s, None if attempt_age_s is None else age_s < attempt_age_s)


def _steps_by_logs(case: Case, logs: LogSet | None) -> _Steps:
    """The step of an earlier attempt tells how far the job had come, not that it makes steps."""
    found = newest_step(case)
    newest = logs.attempt if logs else None
    ages = [age for (_, number), age in logs.attempt_ages_s.items() if number == newest] if logs else []
    attempt_age_s = min(ages, default=None)
    if found is None:
        numbers = [file.last_step.number("step") for file in logs.files if file.last_step] if logs else []
        step = max((number for number in numbers if number is not None), default=None)
        return _Steps(step, None, stalled_after_s(case, None), attempt_age_s, False if ages else None)
    limit_s = stalled_after_s(case, found.normal_s)
    # A lower bound that is over the limit is enough to call it stalled; one below it tells nothing.
    tells = not found.at_least or stands_still(case, found)
    return _Steps(found.step, found.age_s if tells else None, limit_s, attempt_age_s, True if ages else None)


def _loss_finite(case: Case) -> bool | None:
    told = measure(case, "loss_is_finite").now
    if told:
        return min(told.values()) > 0
    verdict = loss(case).verdict
    return {"finite": True, "not-finite": False}.get(verdict)


def _restarts(case: Case, logs: LogSet | None) -> int | None:
    answer = (case.view("metrics", metric_set) or {}).get(RECENT_RESTARTS)
    found = answer.parts.get("now") if answer else None
    if found and found.curves:
        return round(found.curves[0].points[-1][1])
    if logs is None or logs.attempt is None:
        return None
    window_s = case.run.thresholds.restart_window_s
    return len({number for (_, number), age in logs.attempt_ages_s.items() if number > 0 and age <= window_s})


def _xids(case: Case) -> Iterator[Xid]:
    """From the kernels where they were read, for they tell when; else from the gauge of the last code, if it is new."""
    kernels = case.view("kernel", kernel_set)
    oldest = case.now - timedelta(seconds=case.run.thresholds.recent_s)
    for event in kernels.events if kernels else ():
        code = event.event.number("xid")
        if code is not None and event.pages is not False and (event.latest is None or event.latest >= oldest):
            ranks = ranks_of(case, event)
            place = case.ranks.at(ranks[0]) if ranks else None
            yield Xid(code, event.host, place.gpu_index if place else None, event.at)
    gauge = measure(case, "xid")
    for who, value in gauge.now.items():
        place = case.ranks.at(who) if isinstance(who, int) else None
        seen = kernels is not None and place is not None and place.host in kernels.read
        if place is not None and not seen and value > 0 and value != gauge.before.get(who):
            yield Xid(int(value), place.host, place.gpu_index, None)
