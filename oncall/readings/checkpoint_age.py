"""How old is the last good checkpoint, and what would be lost if the job stopped now?"""

import statistics
from itertools import pairwise

from oncall.bundle.evidence import Evidence
from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.checkpoints import Checkpoint, listed_checkpoints, newest_checkpoint
from oncall.readings.finding import Citation, Finding, Judgement, unknown
from oncall.readings.progress import newest_step
from oncall.readings.saver import failures_in_a_row

_LATE = 1.5
_MISSED = 2.0
"""Intervals without a save that ended: half of one is jitter, two are a second failure in a row."""
_FAILED = 2


def checkpoint_age(case: Case) -> Judgement:
    """How old is the last checkpoint that was saved whole?

    `missed`: older than two of the usual intervals, so that two saves have not come, or two in a row failed or did not
    end, whatever its age. `fresh`: younger than one and a half intervals. `overdue`: older than that. `none`: the
    folder holds none. `unknown`: its age, or how often one is due, is not known.
    """
    judged = _by_age(case)
    failed = failures_in_a_row(case)
    if failed < _FAILED:
        return judged
    reason = f"{failed} saves in a row have failed or not ended; {judged.reason}"
    return Judgement(verdict="missed", reason=reason, findings=judged.findings)


def _by_age(case: Case) -> Judgement:
    newest = newest_checkpoint(case)
    if newest is None and case.run.paths.checkpoints is None:
        return unknown("the run file names no `paths.checkpoints`, and no log tells of a save that ended")
    listed = sorted(listed_checkpoints(case), key=lambda each: each.step)
    if newest is None:
        if not case.coverage("logs").complete or not case.view("logs", _lists_checkpoints):
            return unknown(f"the folder was not listed: {case.coverage('logs').describe()}")
        return Judgement(verdict="none", reason=f"{case.run.paths.checkpoints} holds no checkpoint of a known step")
    age_s = next((each.age_s for each in listed if each.step == newest.step), newest.age_s)
    interval_s = _interval_s(listed)
    finding = _finding(case, newest, age_s, interval_s)
    if age_s is None or interval_s is None:
        lacking = "its age is not known" if age_s is None else "fewer than three checkpoints tell how often one is due"
        return unknown(f"{finding.text}; {lacking}", (finding,))
    verdict = "missed" if age_s > _MISSED * interval_s else "overdue" if age_s > _LATE * interval_s else "fresh"
    return Judgement(verdict=verdict, reason=finding.text, findings=(finding,))


def _lists_checkpoints(evidence: Evidence) -> bool:
    return any(True for _ in evidence.all_parts("checkpoints"))


def _interval_s(listed: list[Checkpoint]) -> float | None:
    ages = [each.age_s for each in listed if each.age_s is not None]
    gaps = [older - younger for older, younger in pairwise(ages) if older > younger]
    return statistics.median(gaps) if len(gaps) > 1 else None


def _finding(case: Case, newest: Checkpoint, age_s: float | None, interval_s: float | None) -> Finding:
    age = f", {age_s / 60:.0f} min old" if age_s is not None else ""
    every = f"; one is due every {interval_s / 60:.0f} min" if interval_s is not None else ""
    return Finding(
        kind="observation",
        text=f"the last good checkpoint is of step {newest.step:,}{age}{every}{_loss(case, newest, age_s)}",
        grade=Grade.SURE,
        sequence=newest.step,
        cites=(Citation(probe="logs", text=newest.source),),
    )


def _loss(case: Case, newest: Checkpoint, age_s: float | None) -> str:
    """What has to be done again if the job stops now: steps, and GPU hours where the size of the job is known."""
    step = newest_step(case)
    steps = step.step - newest.step if step is not None and step.step > newest.step else None
    gpus, price = case.ranks.world_size, case.run.gpu_hour_usd
    hours = gpus * age_s / 3600 if gpus is not None and age_s is not None else None
    told = [f"{steps:,} steps"] if steps is not None else []
    told += [f"{hours:,.0f} GPU hours"] if hours is not None else []
    told += [f"${hours * price:,.0f}"] if hours is not None and price is not None else []
    return f"; stopping now loses {', '.join(told)}" if told else ""
