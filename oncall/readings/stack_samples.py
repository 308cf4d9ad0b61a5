"""The stacks of suspected ranks, each looked at several times."""

from collections.abc import Mapping

from oncall.bundle.evidence import Evidence
from oncall.formats.pyspy import parse_pyspy
from oncall.formats.standing import standing
from oncall.readings.case import Case
from oncall.readings.process_table import other_jobs
from oncall.readings.stack_set import RankStack

Samples = Mapping[int, tuple[RankStack, ...]]
"""Rank → its stacks, oldest first."""


def own_samples(case: Case) -> Samples:
    """The samples of the job's own processes; empty where none were taken."""
    return case.once(own_samples, ("stack_samples", "processes"), lambda: _own_samples(case))


def _own_samples(case: Case) -> Samples:
    evidence, others = case.evidence("stack_samples"), other_jobs(case)
    return {} if evidence is None else _samples(evidence, others)


def _samples(evidence: Evidence, others: frozenset[tuple[str, int]]) -> Samples:
    found: dict[int, list[RankStack]] = {}
    for host, part in evidence.all_parts("stack"):
        told, pid = part.attributes.get("rank", ""), part.attributes.get("pid", "")
        if told.isdecimal() and pid.isdecimal() and (host, int(pid)) not in others:
            for dump in parse_pyspy(part.data).dumps[:1]:
                found.setdefault(int(told), []).append(RankStack(int(told), host, int(pid), dump, standing(dump)))
    return {rank: tuple(stacks) for rank, stacks in found.items()}
