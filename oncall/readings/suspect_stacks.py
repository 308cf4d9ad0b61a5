"""Where do the ranks that earlier steps suspect stand, by their stacks?"""

from oncall.formats.standing import WAITS_AT_START, WAITS_FOR_PEERS
from oncall.readings.case import Case
from oncall.readings.finding import Finding, Judgement, unknown
from oncall.readings.stack_set import RankStack, own_stacks
from oncall.readings.standings import describe, stack_citation
from oncall.run.nodes import fold_ranks


def suspect_stacks(case: Case) -> Judgement:
    """Where do the suspects' training threads stand?

    `data`: in the data loader. `waiting`: in a collective themselves, so that they took another branch than their
    peers. `host`: anywhere else in Python or in a call. `unknown`: no stack of theirs was taken.
    """
    suspects = tuple(dict.fromkeys(rank for finding in case.origins() for rank in finding.ranks))
    stacks = own_stacks(case)
    if not suspects:
        return unknown("no rank is suspected")
    if stacks is None or not any(rank in stacks.stacks for rank in suspects):
        return unknown(f"no stack of the suspects, ranks {fold_ranks(suspects)}, was taken")
    seen = [stacks.stacks[rank] for rank in suspects if rank in stacks.stacks]
    findings = tuple(_finding(case, stack) for stack in seen)
    reason = "; ".join(finding.text for finding in findings[:3])
    return Judgement(verdict=_verdict(seen), reason=reason, findings=findings)


def _verdict(seen: list[RankStack]) -> str:
    where = {stack.standing.where for stack in seen}
    if where <= {"dataloader_wait"}:
        return "data"
    if where <= WAITS_FOR_PEERS | WAITS_AT_START:
        return "waiting"
    return "host"


def _finding(case: Case, stack: RankStack) -> Finding:
    frame = stack.standing.user_frame or stack.standing.blocking_frame
    return Finding(
        kind="observation",
        text=f"{case.name_ranks([stack.rank])} {describe(stack)}",
        ranks=(stack.rank,),
        hosts=(stack.host,),
        doing=stack.standing.where,
        frame=str(frame) if frame else None,
        cites=(stack_citation(stack),),
    )
