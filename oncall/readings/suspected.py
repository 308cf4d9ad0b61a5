"""Which ranks have earlier steps of a walk accused?"""

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Finding


def accusations(case: Case) -> tuple[Finding, ...]:
    """The findings of earlier steps that name who began it; one that leaves it undecided accuses nobody."""
    return tuple(finding for finding in case.origins() if finding.grade is not Grade.UNDECIDED)


def suspected_ranks(case: Case) -> frozenset[int]:
    """The ranks that were found to keep the others waiting; empty where everyone is slower or none is known."""
    return frozenset(rank for finding in case.origins() if finding.kind == "straggler" for rank in finding.ranks)
