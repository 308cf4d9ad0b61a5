"""The stacks of suspected ranks, each looked at several times."""

from collections.abc import Mapping

from oncall.bundle.evidence import Evidence
from oncall.formats.pyspy import parse_pyspy
from oncall.formats.standing import standing
from oncall.readings.stack_set import RankStack

Samples = Mapping[int, tuple[RankStack, ...]]
"""Rank → its stacks, oldest first."""


def stack_samples(evidence: Evidence) -> Samples:
    """Read the answers of the `stack_samples` probe."""
    found: dict[int, list[RankStack]] = {}
    taken = ((host, part) for host in evidence.asked for part in evidence.whole_parts(host) if part.name == "stack")
    for host, part in taken:
        told, pid = part.attributes.get("rank", ""), part.attributes.get("pid", "")
        if told.isdecimal() and pid.isdecimal():
            for dump in parse_pyspy(part.data).dumps[:1]:
                found.setdefault(int(told), []).append(RankStack(int(told), host, int(pid), dump, standing(dump)))
    return {rank: tuple(stacks) for rank, stacks in found.items()}
