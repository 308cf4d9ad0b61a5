"""Turns the ends of the chains into origins: what kind of fault, whose, where in the code, and how sure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from oncall.flight_recorder import shift
from oncall.flight_recorder.advice import says_both_sides, says_half_done
from oncall.flight_recorder.describe import Describer
from oncall.flight_recorder.mismatch import disagreement, uneven_splits
from oncall.flight_recorder.model import Grade, Kind, Origin, Share, Undecided
from oncall.flight_recorder.programs import Programs
from oncall.flight_recorder.rings import breach_of, unpaired_in
from oncall.flight_recorder.sinks import Sink, sinks_of, steps_to
from oncall.flight_recorder.skew import FAR_BEHIND
from oncall.flight_recorder.ties import odd_end, outvote
from oncall.flight_recorder.units import Unit
from oncall.flight_recorder.waits import Graph, Hold, Node, Standing

_POSITIVE_FIRST = {Grade.SURE: 0, Grade.LIKELY: 1, Grade.UNDECIDED: 2}
_UNTOLD = {Hold.NO_COUNTERS, Hold.UNLISTED, Hold.MAY_SEND}
_FEW_OF = 8
_AHEAD = (
    "these ranks wait in an operation that most others have not issued, and nothing is open on those: either it is one "
    "call too many, or the others are held up on their hosts"
)
_NO_USABLE_DUMP = "the chains end at ranks without a usable dump"
_UNLISTED = (
    "all ranks known to use the group joined its operation, but nothing lists its members: these ranks may belong to it"
)
_UNCOUNTED = (
    "the chains end at ranks whose dumps do not tell whether they issued the operation: what is over is not listed, "
    "and there are no counters of it"
)
_FROM_ANY = "a receive from any source waits: any of these ranks may be the one to send, and none has anything open"
_UNPAIRED = (
    "the rings no longer hold a collective that both ends took part in, so that their sends and receives cannot be "
    "paired: TORCH_FR_BUFFER_SIZE is too small for the operations of one step of this job"
)


_REASONS = {
    frozenset({Hold.NO_COUNTERS}): _UNCOUNTED,
    frozenset({Hold.UNLISTED}): _UNLISTED,
    frozenset({Hold.MAY_SEND}): _FROM_ANY,
}


class Finder:
    """Reads the origins off one graph."""

    def __init__(self, graph: Graph, *, still: bool = False) -> None:
        self._graph = graph
        self._still = still
        self._origin = Describer(graph).describe
        self._programs = Programs(graph.views, graph.groups)
        self._open: dict[str, list[tuple[Unit, Mapping[Node, int]]]] = {}
        self._holding: dict[Node, list[tuple[Unit, Hold]]] = {}
        for unit, standing in graph.standings.items():
            for rank, hold in standing.holds.items():
                self._holding.setdefault(rank, []).append((unit, hold))

    def find(self) -> tuple[list[Origin], list[Undecided]]:
        """All origins, the most telling first, and what stays undecided."""
        graph = self._graph
        origins: list[Origin] = []
        unseen: list[tuple[Sink, dict[Node, int]]] = []
        explained: set[int] = set()
        for sink in sinks_of(graph.edges):
            steps = steps_to(sink, graph.edges)
            found = self._judge(sink, steps)
            origins += found
            if found:
                explained.update(rank for rank in graph.waiting if rank in steps)
            elif self._needs_dump(sink):
                unseen.append((sink, steps))
        lost, undecided = self._judge_unseen(unseen, explained, alone=not origins)
        origins += lost
        origins.sort(key=lambda o: (_POSITIVE_FIRST[o.grade], -o.explains.ranks, o.ranks))
        return origins, [*self._left_open(), *undecided]

    def _judge(self, sink: Sink, steps: Mapping[Node, int]) -> list[Origin]:
        if len(sink.nodes) > 1:
            return self._judge_ring(sink, steps)
        (node,) = sink.nodes
        if isinstance(node, Unit):
            return self._judge_unit(node, steps)
        if self._needs_dump(sink):
            return []
        if self._graph.stalled(node):
            return [self._stalled(node, steps)]
        return self._not_issued(node, steps)

    def _needs_dump(self, sink: Sink) -> bool:
        node = sink.nodes[0]
        if isinstance(node, Unit):
            return False
        if node not in self._graph.views or node in self._graph.old:
            return True
        holds = {hold for _, hold in self._holding.get(node, ())}
        return bool(holds) and holds <= _UNTOLD

    def _not_issued(self, rank: int, steps: Mapping[Node, int]) -> list[Origin]:
        wanted = [row for row in self._holding[rank] if row[1] not in {Hold.QUEUED, Hold.UNLISTED}]
        unit, hold = min(wanted or self._holding[rank], key=lambda row: self._first_issue(row[0]))
        if self._ahead_of_all(unit):
            self._leave_open(unit, steps, _AHEAD)
            return []
        kind = Kind.IN_LAUNCH if hold is Hold.IN_LAUNCH else Kind.STUCK_BEFORE_COLLECTIVE
        mine = self._graph.views[rank].seats[unit.group].ops.get(unit.seq) if kind is Kind.IN_LAUNCH else None
        return [self._origin(kind, (rank,), unit, steps, Grade.SURE, mine=mine)]

    def _ahead_of_all(self, unit: Unit) -> bool:
        """Whether hardly anybody joined an operation, and most members have neither issued it nor anything open."""
        standing, views = self._graph.standings[unit], self._graph.views
        members = len(self._graph.groups.known[unit.group].ranks)
        idle = [r for r, hold in standing.holds.items() if hold is Hold.NOT_ISSUED and views[r].front is None]
        return 2 * len(idle) > members and len(standing.joined) <= max(1, members // _FEW_OF)

    def _leave_open(self, unit: Unit, steps: Mapping[Node, int], reason: str) -> None:
        self._open.setdefault(reason, []).append((unit, steps))

    def _left_open(self) -> Iterator[Undecided]:
        """One statement for each reason why operations were left open."""
        graph = self._graph
        for reason, rows in self._open.items():
            deciding = sorted({rank for unit, _ in rows for rank in graph.standings[unit].joined})
            reached = sum(any(rank in steps for _, steps in rows) for rank in graph.waiting)
            first = rows[0][0]
            share = Share(reached, len(graph.waiting))
            yield Undecided(tuple(deciding), graph.groups.known[first.group], first.seq, share, reason)

    def _first_issue(self, unit: Unit) -> tuple[int, int]:
        times = [op.created_ns for op in self._graph.standings[unit].ops.values() if op.created_ns]
        return (min(times, default=1 << 64), unit.seq)

    def _stalled(self, rank: int, steps: Mapping[Node, int]) -> Origin:
        view = self._graph.views[rank]
        unit = next(
            (u for u in view.pending if u.rank is None and self._graph.completed.get(u.group, -1) >= u.seq),
            view.pending[0],
        )
        op = view.seats[unit.group].ops[unit.seq] if unit.rank is None else None
        sure = self._graph.lag[rank] >= FAR_BEHIND and self._has_issued_all(rank)
        grade = Grade.SURE if sure else Grade.LIKELY
        return self._origin(Kind.GPU_STALLED, (rank,), unit, steps, grade, mine=op)

    def _has_issued_all(self, rank: int) -> bool:
        """Whether the rank has issued as much as any peer; else its dump may be older, from before it did."""
        seats = self._graph.views[rank].seats
        return all((seat.issued or 0) >= self._graph.issued.get(group, 0) for group, seat in seats.items())

    def _judge_unit(self, unit: Unit, steps: Mapping[Node, int]) -> list[Origin]:
        standing = self._graph.standings[unit]
        if standing.disagrees:
            return self._mismatch(unit, standing, steps)
        if standing.finished:
            return [self._half_done(unit, standing, steps)] if self._still and standing.joined else []
        if standing.guessed:
            self._leave_open(unit, steps, _UNPAIRED)
            return []
        group = self._graph.groups.known[unit.group]
        if unit.rank is None and uneven_splits(standing.ops, len(group.ranks)):
            return [self._origin(Kind.SPLIT_MISMATCH, (), unit, steps, Grade.LIKELY, among=standing.joined)]
        return [self._origin(Kind.TRANSPORT_STALL, (), unit, steps, Grade.LIKELY, among=standing.joined)]

    def _half_done(self, unit: Unit, standing: Standing, steps: Mapping[Node, int]) -> Origin:
        """Some members hold for good what others finished: the device of a lone one, else what lies between them."""
        holders = standing.joined
        if len(holders) == 1 and len(standing.finished) > 1:
            return self._origin(Kind.GPU_STALLED, holders, unit, steps, Grade.LIKELY, mine=standing.ops.get(holders[0]))
        origin = self._origin(Kind.TRANSPORT_STALL, (), unit, steps, Grade.LIKELY, among=holders)
        return replace(origin, says=says_half_done(holders, standing.finished, origin))

    def _mismatch(self, unit: Unit, standing: Standing, steps: Mapping[Node, int]) -> list[Origin]:
        if unit.rank is not None:
            return [self._uneven_transfer(unit, standing, steps)]
        found = disagreement(standing.ops)
        if found is None:
            return []
        grade = Grade.SURE if found.odd else Grade.LIKELY
        if not found.odd:
            found = outvote(found, unit, self._graph, self._programs)
        if not found.odd:
            among = tuple(sorted(standing.ops))
            origin = self._origin(found.kind, (), unit, steps, Grade.UNDECIDED, among=among)
            sides = {side: standing.ops[side[0]] for side in found.sides}
            return [replace(origin, says=says_both_sides(sides, origin))]
        views = self._graph.views
        peer = views[next(rank for rank in found.sides[0] if rank not in found.odd)]
        by_kind: dict[Kind, list[int]] = {}
        for rank in found.odd:
            kind = shift.kind_of(unit, views[rank], peer, self._programs, found.kind)
            by_kind.setdefault(kind, []).append(rank)
        return [
            self._origin(kind, tuple(ranks), unit, steps, grade, mine=standing.ops[ranks[0]])
            for kind, ranks in by_kind.items()
        ]

    def _uneven_transfer(self, unit: Unit, standing: Standing, steps: Mapping[Node, int]) -> Origin:
        odd = odd_end(self._graph, unit)
        among = tuple(sorted({*standing.joined, *standing.holds}))
        if odd is None:
            return self._origin(Kind.P2P_MISMATCH, (), unit, steps, Grade.LIKELY, among=among)
        rank, kind = odd
        return self._origin(kind, (rank,), unit, steps, Grade.LIKELY, mine=standing.ops.get(rank))

    def _judge_ring(self, sink: Sink, steps: Mapping[Node, int]) -> list[Origin]:
        breach = breach_of(sink.nodes, self._graph, self._programs)
        if breach is not None:
            mine = self._graph.standings[breach.unit].ops.get(breach.ranks[0])
            return [self._origin(breach.kind, breach.ranks, breach.unit, steps, Grade.LIKELY, mine=mine)]
        if not sink.final:
            return []
        units = [node for node in sink.nodes if isinstance(node, Unit)]
        unpaired = next((unit for unit in units if self._graph.standings[unit].guessed), None)
        if unpaired is not None:
            self._leave_open(unpaired, steps, _UNPAIRED)
            return []
        lone = unpaired_in(sink.nodes, self._graph)
        if lone is not None:
            return [self._origin(Kind.P2P_MISMATCH, (), lone.unit, steps, Grade.LIKELY, among=lone.ranks)]
        among = tuple(sorted(node for node in sink.nodes if not isinstance(node, Unit)))
        return [self._origin(Kind.CYCLE, (), units[0], steps, Grade.LIKELY, among=among)]

    def _judge_unseen(
        self, unseen: Sequence[tuple[Sink, Mapping[Node, int]]], explained: set[int], *, alone: bool
    ) -> tuple[list[Origin], list[Undecided]]:
        """Missing dumps count only for waiting that nothing else explains; only a sole missing rank is named."""
        graph = self._graph
        open_ranks = [rank for rank in graph.waiting if rank not in explained]
        rows = [(sink.nodes[0], steps) for sink, steps in unseen if any(rank in steps for rank in open_ranks)]
        if not rows:
            return [], []
        absent = [rank for rank in graph.groups.world if rank not in graph.views or rank in graph.old]
        rank, steps = rows[0]
        unit = min((u for u, _ in self._holding[rank]), key=self._first_issue)
        breach = self._out_of_step(unit, steps) if alone else None
        if breach is not None:
            return [breach], []
        if alone and absent == [rank] and isinstance(rank, int) and self._lost(rank):
            return [self._origin(Kind.PROCESS_LOST, (rank,), unit, steps, Grade.LIKELY)], []
        deciding = tuple(sorted(node for node, _ in rows if isinstance(node, int)))
        reached = {r for r in open_ranks for _, steps in rows if r in steps}
        untold = {hold for node, _ in rows for _, hold in self._holding[node]}
        reason = _REASONS.get(frozenset(untold), _NO_USABLE_DUMP)
        share = Share(len(reached), len(graph.waiting))
        return [], [Undecided(deciding, graph.groups.known[unit.group], unit.seq, share, reason)]

    def _lost(self, rank: int) -> bool:
        """Whether the rank has no dump, and belongs for certain to what waits for it."""
        return rank not in self._graph.views and any(hold is Hold.NO_DUMP for _, hold in self._holding[rank])

    def _out_of_step(self, unit: Unit, steps: Mapping[Node, int]) -> Origin | None:
        """The one rank that waits beside a missing dump and is an operation short of its peers, or ahead of them."""
        found = [
            (rank, group, shift.kind)
            for rank in self._graph.standings[unit].joined
            for group in self._graph.views[rank].seats
            if (shift := self._programs.shift(rank, group)) is not None and abs(shift.by) == 1 and shift.kind
        ]
        if len(found) != 1:
            return None
        rank, group, kind = found[0]
        newest = self._graph.views[rank].seats[group].recorded
        place = Unit(group, newest) if newest is not None else unit
        return self._origin(kind, (rank,), place, steps, Grade.LIKELY)
