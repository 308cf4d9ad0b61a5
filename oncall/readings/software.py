"""Is it the suspect's own Python that keeps the others waiting?"""

from collections import Counter

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import UNKNOWN, Finding, Judgement, Role, unknown
from oncall.readings.links import links
from oncall.readings.stack_samples import Samples, own_samples
from oncall.readings.stack_set import RankStack
from oncall.readings.standings import describe, stack_citation
from oncall.readings.suspected import suspected_ranks
from oncall.readings.throttling import throttling
from oncall.run.nodes import fold_ranks

_TELLING = frozenset(
    {
        *("dataloader_wait", "logging_lock", "logging_write", "lock_wait", "sleep", "checkpoint_save", "compile"),
        *("child_wait", "python_compute", "blocked_call"),
    }
)
"""Where a training thread stands now and then in a sound job; most of the looks there mean that it loses time there."""

_OFTEN = 0.5
_FEWEST = 3


def software(case: Case) -> Judgement:
    """Is it the suspects' own Python?

    `suspect`: a suspect stands in the same telling place in half of at least three looks, and its hardware is cleared.
    `clear`: it does not. `nobody-suspected`: no earlier step named a rank. `unknown`: stacks are missing or the
    hardware is not cleared.
    """
    ranks = suspected_ranks(case)
    if not ranks:
        return Judgement(verdict="nobody-suspected", reason="no rank was found to keep the others waiting")
    samples = own_samples(case)
    findings = tuple(found for rank in sorted(ranks) if (found := _finding(case, samples.get(rank, ()))))
    uncleared = [judged.reason for judged in (throttling(case), links(case)) if judged.verdict == UNKNOWN]
    shown = "; ".join(finding.text for finding in findings)
    if findings and not uncleared:
        return Judgement(verdict="suspect", reason=shown, findings=findings)
    if uncleared:
        told = f"{shown}; but" if shown else "stacks alone do not tell, and"
        return unknown(f"{told} the hardware is not cleared: {uncleared[0]}")
    unseen = [rank for rank in sorted(ranks) if len(samples.get(rank, ())) < _FEWEST]
    if unseen:
        return unknown(f"fewer than {_FEWEST} stacks of ranks {fold_ranks(unseen)}: {_why_none(case, samples)}")
    return Judgement(
        verdict="clear", reason=f"the stacks of ranks {fold_ranks(ranks)} show no place where time is lost"
    )


def _why_none(case: Case, samples: Samples) -> str:
    if case.evidence("stack_samples") is None:
        return "none were taken"
    return case.coverage("stack_samples").describe() if not samples else "py-spy gave no more"


def _finding(case: Case, stacks: tuple[RankStack, ...]) -> Finding | None:
    if len(stacks) < _FEWEST:
        return None
    places = Counter(stack.standing.where for stack in stacks if stack.standing.where in _TELLING)
    where, times = max(places.items(), key=lambda item: item[1], default=(None, 0))
    if times < _OFTEN * len(stacks):
        return None
    stack = next(each for each in stacks if each.standing.where == where)
    frame = stack.standing.user_frame or stack.standing.blocking_frame
    return Finding(
        kind="software_straggler",
        text=f"{case.name_ranks([stack.rank])} {describe(stack)} in {times} of {len(stacks)} looks",
        role=Role.ORIGIN,
        grade=Grade.SURE if times == len(stacks) else Grade.LIKELY,
        ranks=(stack.rank,),
        hosts=(stack.host,),
        doing=where,
        frame=str(frame) if frame else None,
        cites=(stack_citation(stack),),
    )
