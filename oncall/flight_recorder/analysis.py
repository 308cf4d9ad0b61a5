"""Names the origin of a hang from the dumps of its ranks."""

from collections.abc import Mapping

from oncall.flight_recorder.absent import coverage_of
from oncall.flight_recorder.groups import resolve
from oncall.flight_recorder.model import Analysis, DumpSet
from oncall.flight_recorder.origins import Finder
from oncall.flight_recorder.units import RankView, view_ranks
from oncall.flight_recorder.waits import Graph


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

    In a standstill everyone holds the same operation. Where half of the ranks or more hold one that a peer finished,
    the dumps are of different moments. One operation of difference beside a missing dump is rather a broken ring.
    """
    views: Mapping[int, RankView] = graph.views
    behind = [rank for rank, lag in graph.lag.items() if lag >= 2 or len(views) == len(graph.groups.world)]
    if not behind or 2 * len(behind) < len(views):
        return None
    return (
        f"{len(behind)} of {len(views)} ranks hold operations that a peer finished: the dumps were taken at different "
        "moments of a running job"
    )
