"""Which ranks have earlier steps of a walk accused?"""

from oncall.readings.case import Case


def suspected_ranks(case: Case) -> frozenset[int]:
    """The ranks that were found to keep the others waiting; empty where everyone is slower or none is known."""
    return frozenset(rank for finding in case.origins() if finding.kind == "straggler" for rank in finding.ranks)
