"""Names the origin of a hang from the dumps of its ranks."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from oncall.flight_recorder.absent import coverage_of
from oncall.flight_recorder.collector import without_collector
from oncall.flight_recorder.frames import call_site
from oncall.flight_recorder.groups import resolve
from oncall.flight_recorder.model import Analysis, DumpSet, Frame, Grade, Kind, Origin, Refused, Share, Undecided
from oncall.flight_recorder.origins import Finder
from oncall.flight_recorder.skew import FAR_BEHIND, hours_before, of_another_time
from oncall.flight_recorder.tables import tables
from oncall.flight_recorder.units import State, view_ranks
from oncall.flight_recorder.waits import Graph

_SEVERAL = 3
"""Ranks. One or two may have lost their device; that many that are slightly behind are rather a running job."""


def analyse(dumps: DumpSet, *, world_size: int | None = None, still: bool = False) -> Analysis:
    """Find what the waiting ranks wait for in the end.

    `world_size` extends the job beyond the ranks that the dumps mention. A set without waiting ranks, or one that shows
    the job moving while the dumps were taken, has no origins. `still` says that the job is known to stand, by its log
    or by an earlier snapshot: what the dumps show is then no moment of a running job, however unequal they are.
    """
    with without_collector():
        return _analysed(dumps, world_size, still)


def _analysed(dumps: DumpSet, world_size: int | None, still: bool) -> Analysis:
    groups = resolve(dumps.dumps, world_size)
    graph = Graph(view_ranks(dumps.dumps, groups), groups, of_another_time(dumps.dumps))
    leaders = _of_another_incident(dumps, graph)
    if leaders:
        return _analysed(_without(dumps, leaders), len(groups.world), still)
    coverage = coverage_of(dumps, groups, graph.old)
    if not graph.waiting:
        return Analysis((), _left_out(graph), coverage, (), None)
    origins: Sequence[Origin] = ()
    undecided: Sequence[Undecided] = ()
    motion = None if still else _motion(graph)
    if motion is None:
        origins, undecided = Finder(graph, still=still).find()
        motion = None if still else _motion_despite(graph, dumps, origins)
    if motion is not None:
        origins = undecided = ()
    if still and not origins and not undecided:
        undecided = (Undecided(graph.waiting, None, None, Share(0, len(graph.waiting)), _STANDS),)
    open_parts = tuple(replace(part, victim_frame=_waits_at(part, graph)) for part in undecided)
    return Analysis(tuple(origins), open_parts, coverage, graph.waiting, motion, tables(graph, origins))


def _waits_at(part: Undecided, graph: Graph) -> Frame | None:
    """Where those call it that joined the operation which the chains end at."""
    for unit, standing in graph.standings.items():
        if (graph.groups.known[unit.group], unit.seq) == (part.group, part.seq):
            sites = (call_site(standing.ops.get(rank)) for rank in standing.joined)
            return next((site for site in sites if site is not None), None)
    return None


def _of_another_incident(dumps: DumpSet, graph: Graph) -> tuple[int, ...]:
    """The few ranks that are ahead of all others, though their dumps were written hours before."""
    ahead = tuple(rank for rank in graph.views if rank not in graph.old)
    if not ahead or 2 * len(ahead) >= len(graph.views):
        return ()
    return tuple(rank for rank in ahead if hours_before(rank, dumps.dumps, graph.old) is not None)


def _without(dumps: DumpSet, ranks: Collection[int]) -> DumpSet:
    reason = "a file of an earlier incident: written hours before those of its peers, though it is ahead of them"
    refused = [Refused(dumps.dumps[rank].source, reason, rank) for rank in ranks]
    kept = {rank: dump for rank, dump in dumps.dumps.items() if rank not in ranks}
    return replace(dumps, dumps=kept, refused=(*dumps.refused, *refused))


def _motion_despite(graph: Graph, dumps: DumpSet, origins: Sequence[Origin]) -> str | None:
    """Why what was found may come from a running job; None where it stands."""
    if origins and all(_may_be_over(origin, dumps) for origin in origins):
        return _UNCLOSED
    firm = any(origin.grade is Grade.SURE or _far_behind(origin, graph) for origin in origins)
    if not firm and any(_slightly_behind(origin, graph) for origin in origins):
        return _MOVING
    return _WITHIN if _all_within(graph, origins) else None


_STANDS = "the job stands still, and every rank waits in something that the dumps show nobody to hold up"


_MOVING = (
    "a rank is slightly behind and not all wait for it: the dumps were taken at different moments of a running job"
)


_WITHIN = (
    "every group is within an operation that all its members joined: a running job looks like that at any moment, and "
    "so does a network that stands still as a whole; a second snapshot decides (--since)"
)


_UNCLOSED = (
    "dumps of active operations list the sends and receives of a batch for ever, and only its closing entry says that "
    "it is over: these may be; a second snapshot decides (--since)"
)


def _may_be_over(origin: Origin, dumps: DumpSet) -> bool:
    """Whether the origin is no more than a matching send and receive in dumps that leave out what has completed."""
    stalled = origin.kind is Kind.TRANSPORT_STALL and origin.op in {"send", "recv"}
    return stalled and all(dumps.dumps[rank].only_active for rank in origin.among)


def _all_within(graph: Graph, origins: Sequence[Origin]) -> bool:
    """Whether several groups are within an operation and no rank waits for another group than its own."""
    stalled = [origin for origin in origins if origin.kind is Kind.TRANSPORT_STALL]
    if len(stalled) < 2 or len(stalled) < len(origins):
        return False
    within = {rank for origin in stalled for rank in origin.among}
    return all(rank in within for rank, view in graph.views.items() if view.front is not None)


def _slightly_behind(origin: Origin, graph: Graph) -> bool:
    """A stalled device holds up everyone in the end; a few operations behind without that is an earlier dump."""
    slight = origin.kind is Kind.GPU_STALLED and not _far_behind(origin, graph)
    return slight and origin.explains.ranks < origin.explains.waiting


def _far_behind(origin: Origin, graph: Graph) -> bool:
    return origin.kind is Kind.GPU_STALLED and all(graph.lag[rank] >= FAR_BEHIND for rank in origin.ranks)


def _motion(graph: Graph) -> str | None:
    """Why the dumps look taken from a running job; None when they agree with one standstill.

    In a standstill nobody holds what a peer finished, except a rank with a lost device. Where half of the ranks do, or
    several by a few operations only, the dumps are of different moments. One operation of difference beside a missing
    dump is rather a ring broken by a dead member.
    """
    lags = graph.lag.values()
    far = [lag for lag in lags if lag >= 2]
    behind = len(lags) if len(graph.views) == len(graph.groups.world) else len(far)
    if not behind:
        return None
    from statistics import median  # noqa: PLC0415  # brings fractions and decimals, which a job that stands needs not

    scattered = median(lags) < FAR_BEHIND and (behind >= _SEVERAL or len(far) >= 2)
    if 2 * behind < len(graph.views) and not scattered:
        return None
    return (
        f"{behind} of {len(graph.views)} ranks hold operations that a peer finished: the dumps were taken at different "
        "moments of a running job"
    )


def _left_out(graph: Graph) -> tuple[Undecided, ...]:
    """Operations that ended though a member with a dump never issued them: gloo counts a failed operation as done.

    Device backends do not, and their counters mix in sends and receives, of which a group's members make unequal many.
    """
    rows = []
    for group, newest in graph.completed.items():
        members = [r for r in graph.groups.known[group].ranks if r in graph.views and group in graph.views[r].seats]
        if any(graph.views[r].seats[group].in_order for r in members):
            continue
        short = tuple(r for r in members if graph.views[r].seats[group].state(newest) is State.NOT_ISSUED)
        if short and len(short) < len(members):
            reason = (
                "an operation ended that these ranks never issued: it failed (gloo counts that as done), or their "
                "dumps are older; the exception texts or a second snapshot decide"
            )
            rows.append(Undecided(short, graph.groups.known[group], newest, Share(0, 0), reason))
    return tuple(rows)
