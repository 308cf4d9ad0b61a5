"""Names the origin of a hang from the dumps of its ranks."""

from collections.abc import Mapping
from statistics import median

from oncall.flight_recorder.absent import coverage_of
from oncall.flight_recorder.groups import resolve
from oncall.flight_recorder.model import Analysis, DumpSet
from oncall.flight_recorder.origins import Finder
from oncall.flight_recorder.units import RankView, view_ranks
from oncall.flight_recorder.waits import Graph

_SEVERAL = 3
_FAR_BEHIND = 8
"""Operations. Dumps a few milliseconds apart differ by less; a rank whose device is lost falls behind without limit."""


def analyse(dumps: DumpSet, *, world_size: int | None = None) -> Analysis:
    """Find what the waiting ranks wait for in the end.

    `world_size` extends the job beyond the ranks that the dumps mention. A set without waiting ranks, or one that shows
    the job moving while the dumps were taken, has no origins.
    """
    groups = resolve(dumps.dumps, world_size)
    graph = Graph(view_ranks(dumps.dumps, groups), groups)
    coverage = coverage_of(dumps, groups)
    motion = _motion(graph)
    if motion is not None or not graph.waiting:
        return Analysis((), (), coverage, graph.waiting, motion)
    origins, undecided = Finder(graph).find()
    return Analysis(tuple(origins), tuple(undecided), coverage, graph.waiting, None)


def _motion(graph: Graph) -> str | None:
    """Why the dumps look taken from a running job; None when they agree with one standstill.

    In a standstill nobody holds what a peer finished, except a rank with a lost device. Where half of the ranks do, or
    several by a few operations only, the dumps are of different moments. One operation of difference beside a missing
    dump is rather a ring broken by a dead member.
    """
    views: Mapping[int, RankView] = graph.views
    behind = [rank for rank, lag in graph.lag.items() if lag >= 2 or len(views) == len(graph.groups.world)]
    if not behind:
        return None
    slight = median(graph.lag[rank] for rank in behind) < _FAR_BEHIND
    if 2 * len(behind) < len(views) and not (slight and len(behind) >= _SEVERAL):
        return None
    return (
        f"{len(behind)} of {len(views)} ranks hold operations that a peer finished: the dumps were taken at different "
        "moments of a running job"
    )
