"""The wait-for graph: who waits on which operation, and who holds that operation up."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.mismatch import disagreement
from oncall.flight_recorder.model import Op
from oncall.flight_recorder.pairing import Counterpart, End, Pairing
from oncall.flight_recorder.skew import ROOTED, outrun
from oncall.flight_recorder.units import Batch, RankView, Seat, State, Unit

Node = int | Unit
"""A rank or an operation. Operations stand between ranks, so a group of n members costs n edges, not n squared."""


class Hold(StrEnum):
    """Why an operation cannot finish because of one member."""

    NO_DUMP = "left no dump"
    OLD_DUMP = "left a dump that is older than those of its peers"
    UNLISTED = "may belong to the group, which has no list of members"
    NO_COUNTERS = "its dump does not say whether it issued this"
    NOT_ISSUED = "has not issued it"
    IN_LAUNCH = "is inside the launch call"
    GPU_BEHIND = "holds it though a peer finished it"
    QUEUED = "issued it behind an earlier operation"
    UNMATCHED = "has no matching send or receive"
    MAY_SEND = "may be the one to send, and sends nothing"


@dataclass(frozen=True, slots=True)
class Standing:
    """How the members of one operation stand: who joined it, who finished it, who holds it up and why.

    `guessed` says that a send and a receive were paired without anything to count them from.
    """

    joined: tuple[int, ...]
    finished: tuple[int, ...]
    holds: Mapping[int, Hold]
    ops: Mapping[int, Op]
    disagrees: bool
    guessed: bool = False


class Graph:
    """All waiting ranks, the operations at their fronts, and the edges between them."""

    def __init__(self, views: Mapping[int, RankView], groups: Groups, stale: Collection[int] = ()) -> None:
        self.views = views
        self.groups = groups
        self.pairing = Pairing(views, groups)
        self.batches = {b.unit: b for v in views.values() for own in v.batches.values() for b in own if not b.done}
        self.completed = self._newest(lambda seat: seat.completed)
        self.issued = self._newest(lambda seat: seat.issued)
        self._stale = frozenset(stale)
        self.old = dict.fromkeys(stale, 0) | outrun(views, groups)
        self.waiting = tuple(rank for rank, view in views.items() if view.pending and rank not in self.old)
        self.lag = {rank: lag for rank, view in views.items() if (lag := self._lag(view) or self.old.get(rank, 0))}
        self.standings: dict[Unit, Standing] = {}
        self.edges: dict[Node, tuple[Node, ...]] = {}
        for rank in self.waiting:
            self._expand(rank)

    def _newest(self, reached: Callable[[Seat], int | None]) -> dict[int, int]:
        """The newest collective that any member reached, by group."""
        newest: dict[int, int] = {}
        for view in self.views.values():
            for group, seat in view.seats.items():
                seq = reached(seat)
                if seq is not None and seq > newest.get(group, -1):
                    newest[group] = seq
        return newest

    def _lag(self, view: RankView) -> int:
        """By how many operations this rank is behind a peer that finished what it still holds; 0 when by none."""
        lag = 0
        seen: set[int] = set()
        for unit in view.pending:
            if unit.rank is None and unit.group not in seen:
                seen.add(unit.group)
                if view.seats[unit.group].ops[unit.seq].signature.op not in ROOTED:
                    lag = max(lag, self.completed.get(unit.group, -1) - unit.seq + 1)
        return lag

    def _expand(self, start: Node) -> None:
        todo: list[Node] = [start]
        while todo:
            node = todo.pop()
            if node in self.edges:
                continue
            self.edges[node] = self._successors(node)
            todo += [n for n in self.edges[node] if n not in self.edges]

    def _successors(self, node: Node) -> tuple[Node, ...]:
        if isinstance(node, Unit):
            standing = self.standings[node] = self._standing(node)
            other_end = self._other_end(node, standing)
            if other_end is not None:
                return (other_end,)
            return () if standing.disagrees else tuple(standing.holds)
        view = self.views.get(node)
        if view is None or view.front is None or node in self.old or self.stalled(node):
            return ()
        if self._in_launch(view.front, node):
            self.standings.setdefault(view.front, self._standing(view.front))
            return ()
        return (view.front,)

    def _other_end(self, unit: Unit, standing: Standing) -> Unit | None:
        """The batch in whose place this one stands: of two ranks that only wait for each other the lower one's.

        What is wrong between the two ends of a send is one fault, and one link is one operation.
        """
        batch = self.batches[unit] if unit.rank is not None else None
        if batch is None or standing.finished or (standing.holds and not standing.disagrees):
            return None
        if standing.disagrees:
            others = [c.batch for c in self.pairing.counterparts(batch) if c.disagrees]
        else:
            others = [self.pairing.twin(batch)]
        ends = [b.unit for b in others if b is not None and b.unit.rank in standing.joined]
        return min((end for end in ends if (end.rank or 0) < (unit.rank or 0)), key=lambda e: e.rank or 0, default=None)

    def _in_launch(self, unit: Unit, rank: int) -> bool:
        return unit.rank is None and self.views[rank].seats[unit.group].state(unit.seq) is State.IN_LAUNCH

    def stalled(self, rank: int) -> bool:
        """Whether a peer is two or more operations ahead on one that this rank still holds.

        One alone is what a dump taken a moment later, or a ring broken by a dead member, looks like.
        """
        return rank not in self.old and self.lag.get(rank, 0) >= 2

    def _standing(self, unit: Unit) -> Standing:
        return self._of_batch(self.batches[unit]) if unit.rank is not None else self._of_collective(unit)

    def _of_collective(self, unit: Unit) -> Standing:
        joined, finished = [], []
        holds: dict[int, Hold] = {}
        ops: dict[int, Op] = {}
        for rank in self.groups.known[unit.group].ranks:
            view = self.views.get(rank)
            if view is None:
                holds[rank] = Hold.NO_DUMP
                continue
            if rank in self._stale:
                holds[rank] = Hold.OLD_DUMP
                continue
            seat = view.seats.get(unit.group)
            state = seat.state(unit.seq) if seat else State.UNKNOWN
            if seat and unit.seq in seat.ops and unit.seq != seat.building:
                ops[rank] = seat.ops[unit.seq]
            if state is State.DONE:
                finished.append(rank)
            elif state is State.PENDING and view.front == unit:
                joined.append(rank)
            elif rank in self.old:
                holds[rank] = Hold.OLD_DUMP
            elif state in _HOLD_OF:
                holds[rank] = _HOLD_OF[state]
            else:
                holds[rank] = Hold.GPU_BEHIND if self.stalled(rank) else Hold.QUEUED
        if finished:
            holds = {r: h for r, h in holds.items() if h is not Hold.QUEUED}
        elif not holds:
            holds = dict.fromkeys(self._unlisted(unit.group), Hold.UNLISTED)
        return Standing(tuple(joined), tuple(finished), holds, ops, disagreement(ops) is not None)

    def _unlisted(self, number: int) -> Iterator[int]:
        """Ranks that may belong to a group whose members are known from its use alone, and that wait in nothing.

        A rank that used another group of the same purpose, where that is told, belongs to that one.
        """
        group = self.groups.known[number]
        if not group.inferred:
            return
        known = enumerate(self.groups.known) if group.described else ()
        same = {n for n, other in known if other.desc == group.desc}
        for rank in self.groups.world:
            view = self.views.get(rank)
            if rank not in group.ranks and (view is None or (view.front is None and same.isdisjoint(view.seats))):
                yield rank

    def _of_batch(self, batch: Batch) -> Standing:
        rank = batch.unit.rank if batch.unit.rank is not None else -1
        joined, finished = [rank], []
        holds: dict[int, Hold] = {}
        ops = {rank: batch.op}
        disagrees = guessed = False
        partners = self.pairing.counterparts(batch)
        for other in partners:
            guessed |= other.guessed
            if other.end is End.DONE:
                finished.append(other.rank)
            elif other.end is not End.HELD:
                holds[other.rank] = Hold.NO_DUMP if other.end is End.NO_DUMP else Hold.UNMATCHED
            else:
                disagrees |= other.disagrees
                if other.batch is not None:
                    ops[other.rank] = other.batch.op
                self._place_partner(other, joined, holds)
        if batch.open_ended and len(partners) == len(batch.transfers):
            members = self.groups.known[batch.unit.group].ranks
            holds = {**dict.fromkeys((m for m in members if m != rank), Hold.MAY_SEND), **holds}
        return Standing(tuple(joined), tuple(finished), holds, ops, disagrees, guessed)

    def _place_partner(self, other: Counterpart, joined: list[int], holds: dict[int, Hold]) -> None:
        if other.batch is not None and self.views[other.rank].front == other.batch.unit:
            joined.append(other.rank)
        else:
            holds.setdefault(other.rank, Hold.QUEUED)


_HOLD_OF = {
    State.UNKNOWN: Hold.NO_COUNTERS,
    State.NOT_ISSUED: Hold.NOT_ISSUED,
    State.IN_LAUNCH: Hold.IN_LAUNCH,
}
