"""Nothing stood out. Was everything that could have looked at?"""

from collections.abc import Callable

from oncall.readings.case import Case
from oncall.readings.data_share import data_share
from oncall.readings.few_or_all import few_or_all
from oncall.readings.finding import UNKNOWN, Judgement, unknown
from oncall.readings.fragmentation import fragmentation
from oncall.readings.host_memory import host_memory
from oncall.readings.links import links
from oncall.readings.log_volume import log_volume
from oncall.readings.slowness import slowness
from oncall.readings.throttling import throttling

_ASKED: dict[str, Callable[[Case], Judgement]] = {
    "against before": slowness,
    "few or all": few_or_all,
    "throttling": throttling,
    "links": links,
    "data": data_share,
    "fragmentation": fragmentation,
    "logs and checkpoints": log_volume,
    "host memory": host_memory,
}


def remainder(case: Case) -> Judgement:
    """Was every question of the tree answered?

    `all-clear`: every one, and none explains the slowdown. `unknown`: some were not, and those are named.
    """
    judged = {name: judge(case) for name, judge in _ASKED.items()}
    open_ones = {name: judgement.reason for name, judgement in judged.items() if judgement.verdict == UNKNOWN}
    if open_ones:
        told = "; ".join(f"{name}: {reason}" for name, reason in open_ones.items())
        return unknown(f"{len(open_ones)} of {len(judged)} questions have no answer: {told}")
    return Judgement(verdict="all-clear", reason=f"all {len(judged)} questions were answered, and none explains it")
