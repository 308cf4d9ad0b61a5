"""Is more of each step spent waiting for data?"""

from collections.abc import Mapping

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.measured import Measured, measure, typical
from oncall.readings.series_join import Subject

_LOADING_SPAN = "fetching_batch"
"""torchtitan's span around the data loader (v0.3.0)."""

_GREW = 1.2


def data_share(case: Case) -> Judgement:
    """Is more of a step spent waiting for data?

    `suspect`: waiting for data takes over a twentieth of the step and 1.2 times what it took before. `clear`: it does
    not. `unknown`: the wait for data is not known of every rank.
    """
    waits, times = data_waits(case), measure(case, "step_time_s")
    now, before = shares(waits.now, times.now), shares(waits.before, times.before)
    share, usual = typical(now), typical(before)
    if share is None:
        return unknown(waits.lacks(()) or times.lacks(()) or "no rank tells both its wait for data and its step time")
    limit = case.run.thresholds.data_share
    told = f"{share:.1%} of a step is spent waiting for data" + ("" if usual is None else f", it was {usual:.1%}")
    if share >= limit and (usual is None or share >= _GREW * usual):
        finding = _finding(case, told, waits, now, sure=usual is not None and waits.lacks(case.ranks.ranks) is None)
        return Judgement(verdict="suspect", reason=told, findings=(finding,))
    lacking = waits.lacks(case.ranks.ranks) or times.lacks(case.ranks.ranks)
    if lacking is not None:
        return unknown(f"{told}, but {lacking}")
    return Judgement(verdict="clear", reason=told)


def shares(waits: Mapping[Subject, float], times: Mapping[Subject, float]) -> dict[Subject, float]:
    """The part of each rank's step that it waits for data, 0 to 1."""
    return {who: wait / times[who] for who, wait in waits.items() if times.get(who, 0.0) > 0}


def data_waits(case: Case) -> Measured:
    """Each rank's wait for data in a step, in seconds: what the trainer tells, else the span around its loader."""
    told = measure(case, "data_wait_s")
    span = measure(case, "span_seconds", name=_LOADING_SPAN)
    return span if not told.now and span.now else told


def _finding(case: Case, told: str, waits: Measured, now: Mapping[Subject, float], *, sure: bool) -> Finding:
    ranks = tuple(sorted(who for who in now if isinstance(who, int)))
    where = f"all {len(ranks)} ranks" if set(ranks) >= case.ranks.ranks else f"{len(ranks)} ranks seen"
    return Finding(
        kind="data_slow",
        text=f"{told} ({where}, median)",
        role=Role.ORIGIN,
        grade=Grade.SURE if sure else Grade.LIKELY,
        cites=(Citation(probe="metrics", text=waits.query),),
    )
