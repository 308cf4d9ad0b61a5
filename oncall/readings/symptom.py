"""Which decision tree does a run call for? By its alerts, else by its metrics, else by its logs."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from oncall.readings.alert_set import AlertRow, alerts
from oncall.readings.attempts import attempts
from oncall.readings.case import Case
from oncall.readings.job_facts import JobFacts, job_facts
from oncall.readings.measured import measure
from oncall.readings.slowness import slowness

_PROBES = ("alerts", "metrics", "baseline", "logs", "kernel", "processes")

HANG = "hang"
_SLOWDOWN, _CHECKPOINT, _HARDWARE = "slowdown", "checkpoint", "hardware"
_NUMERICS, _RESTARTS = "loss-not-finite", "restart-loop"

PLAYBOOK_OF_ALERT: Mapping[str, str] = {
    "TrainingLossNotFinite": _NUMERICS,
    "TrainingRestartLoop": _RESTARTS,
    "TrainingStepStalled": HANG,
    "TrainingJobGone": HANG,
    "TrainingRestarting": HANG,
    "CheckpointSaveFailed": _CHECKPOINT,
    "GpuXidError": _HARDWARE,
    "GpuEccDbe": _HARDWARE,
    "GpuRowRemapPending": _HARDWARE,
    "CheckpointSlow": _CHECKPOINT,
    "TrainingMfuDegraded": _SLOWDOWN,
    "RankStepTimeOutlier": _SLOWDOWN,
    "TrainingMfuBelowBaseline": _SLOWDOWN,
    "GpuClockLow": _SLOWDOWN,
    "MemoryFragmentation": _SLOWDOWN,
    "DataLoadingWait": _SLOWDOWN,
    "NvlinkErrors": _SLOWDOWN,
}
"""Alert → tree, the most pressing first: what stops a job goes before what slows it."""


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """The tree to walk, why, and which source told; `nothing` is the fallback where none did."""

    playbook: str
    reason: str
    source: Literal["alerts", "metrics", "logs", "nothing"]


def symptom(case: Case) -> Symptom:
    """The tree that the evidence so far calls for."""
    return case.once(symptom, _PROBES, lambda: by_alerts(case) or by_metrics(case) or _by_logs(case) or _fallback())


def by_alerts(case: Case) -> Symptom | None:
    """By the most pressing alert of the run that nothing suppresses; None where no alert calls for a tree."""
    firing = [row for row in alerts(case) or () if not row.suppressed and row.name in PLAYBOOK_OF_ALERT]
    pressing = list(PLAYBOOK_OF_ALERT)
    chosen = min(firing, key=lambda row: pressing.index(row.name), default=None)
    if chosen is None:
        return None
    return Symptom(playbook=PLAYBOOK_OF_ALERT[chosen.name], reason=_alert_words(chosen), source="alerts")


def _alert_words(row: AlertRow) -> str:
    return f"{row.name} fires since {row.since:%H:%M} UTC" + (f": {row.summary}" if row.summary else "")


def by_metrics(case: Case) -> Symptom | None:
    """By the series of the run; None where they tell nothing or nothing is wrong in them."""
    if not measure(case, "last_step_completed_timestamp_seconds").now and not measure(case, "step_time_s").now:
        return None
    chosen = _stopped(case, job_facts(case)) or _still_running(case)
    return None if chosen is None else Symptom(playbook=chosen[0], reason=chosen[1], source="metrics")


def _stopped(case: Case, facts: JobFacts) -> tuple[str, str] | None:
    if facts.loss_finite is False:
        return _NUMERICS, "the loss is not finite"
    limits = case.run.thresholds
    if facts.restarts is not None and facts.restarts >= limits.restart_limit:
        return _RESTARTS, f"{facts.restarts} restarts within {limits.restart_window_s / 60:.0f} min"
    if facts.stalled and not facts.finished:
        return HANG, f"no step ended for {facts.step_age_s or 0.0:.0f} s"
    return None


def _still_running(case: Case) -> tuple[str, str] | None:
    failed = max(measure(case, "ckpt_failed_total").now.values(), default=0.0)
    if failed >= 1:
        return _CHECKPOINT, f"{failed:.0f} checkpoint saves failed in {case.run.prometheus.window}"
    codes, errors = measure(case, "xid"), measure(case, "ecc_dbe")
    for measured, words in ((codes, "Xid {:.0f}"), (errors, "{:.0f} uncorrectable ECC errors")):
        for who, value in measured.now.items():
            if value > measured.before.get(who, 0.0) and isinstance(who, int):
                return _HARDWARE, f"{case.name_ranks([who])}: {words.format(value)}"
    judged = slowness(case)
    return (_SLOWDOWN, judged.reason) if judged.verdict == "slower" else None


def _by_logs(case: Case) -> Symptom | None:
    facts = job_facts(case)
    if facts.loss_finite is False:
        return Symptom(playbook=_NUMERICS, reason="the logs show a loss that is not finite", source="logs")
    if attempts(case).verdict == "loop":
        return Symptom(playbook=_RESTARTS, reason="the launcher starts the job again and again", source="logs")
    if facts.stalled:
        reason = f"by the logs the last step ended {facts.step_age_s or 0.0:.0f} s ago"
        return Symptom(playbook=HANG, reason=reason, source="logs")
    return None


def _fallback() -> Symptom:
    return Symptom(playbook=HANG, reason="neither alerts, metrics nor logs call for another tree", source="nothing")
