"""Does a step take longer than before?"""

from datetime import UTC, datetime

import msgspec

from oncall.readings.baseline import HISTORY
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, unknown
from oncall.readings.measured import Measured, measure, typical
from oncall.readings.metric_set import metric_set
from oncall.readings.series_aside import series_aside


def slowness(case: Case) -> Judgement:
    """Does a step take longer than before?

    `slower`: a step takes 1.1 times what it took in the last stable stretch, or the MFU fell as much. `steady`: it does
    not. `stalled`: no step ends at all. `unknown`: now or before is not known. The first to ask Prometheus, it also
    tells what of the answers does not count.
    """
    judged = _slowness(case)
    return msgspec.structs.replace(judged, findings=(*judged.findings, *series_aside(case)))


def _slowness(case: Case) -> Judgement:
    stalled_s = stalled_for_s(case)
    if stalled_s is not None:
        return Judgement(verdict="stalled", reason=f"no step ended for {stalled_s:.0f} s: it has stopped, not slowed")
    times = measure(case, "step_time_s")
    lacking = times.lacks(())
    now, before = typical(times.now), typical(times.before)
    if now is None or (lacking is not None and before is None):
        return unknown(lacking or "no step time")
    if before is None or before <= 0:
        return unknown(f"a step takes {now:.3g} s, but {_why_no_baseline(case, before)}")
    told = _finding(case, times, now, before)
    factor = case.run.thresholds.slow_factor
    if now >= factor * before:
        return Judgement(verdict="slower", reason=told.text, findings=(told,))
    mfu = measure(case, "mfu")
    mfu_now, mfu_before = typical(mfu.now), typical(mfu.before)
    if mfu_now is not None and mfu_before is not None and mfu_now * factor <= mfu_before:
        text = f"{told.text}; but the MFU is {mfu_now:.1f} %, it was {mfu_before:.1f} %"
        return Judgement(verdict="slower", reason=text, findings=(told,))
    whole = times.lacks(case.ranks.ranks)
    return unknown(whole, (told,)) if whole else Judgement(verdict="steady", reason=told.text, findings=(told,))


def stalled_for_s(case: Case) -> float | None:
    """The age of the run's last step in seconds where it is over the run's limit; None else, or where not known."""
    last = measure(case, "last_step_completed_timestamp_seconds")
    if not last.now or last.end is None:
        return None
    limits = case.run.thresholds
    normal = measure(case, "step_time_s_p50")
    normal_s = typical(normal.now) or typical(normal.before) or 0.0
    age_s = last.end - max(last.now.values())
    return age_s if age_s > max(limits.stalled_s, limits.stalled_factor * normal_s) else None


def slowdown_s(case: Case) -> float | None:
    """By how much a step takes longer than before, in seconds; None where either is not known."""
    times = measure(case, "step_time_s")
    now, before = typical(times.now), typical(times.before)
    return None if now is None or before is None else now - before


def before_at(case: Case) -> datetime | None:
    """The end of the stretch that now is compared with, in UTC."""
    answers = (case.view("baseline", metric_set) or {}).values()
    ends = [part.end for answer in answers for part in answer.parts.values()]
    return datetime.fromtimestamp(ends[0], UTC) if ends else None


def _why_no_baseline(case: Case, before: float | None) -> str:
    if before is not None:
        return f"that it took {before:.3g} s before cannot be"
    failed = case.coverage("metrics").missing.get(HISTORY)
    if failed is not None:
        return f"how long steps took before is not known: {failed}"
    if case.evidence("baseline") is None:
        return "there is no earlier stable stretch within the look-back to compare with"
    return f"the stretch before is not known: {case.coverage('baseline').describe()}"


def _finding(case: Case, times: Measured, now: float, before: float) -> Finding:
    at = before_at(case)
    when = f" at {at:%Y-%m-%d %H:%M} UTC" if at else ""
    text = f"a step takes {now:.3g} s, it took {before:.3g} s{when} ({now / before:.2g} times)"
    return Finding(kind="slowdown", text=text, cites=(Citation(probe="metrics", text=times.query),))
