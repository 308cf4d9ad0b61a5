"""Compares the order in which ranks that run the same program use their groups: who is one operation short or ahead."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import Kind
from oncall.flight_recorder.units import RankView, Unit

_MAX_PEERS = 32

Role = tuple[str, int, tuple[int, ...]]
"""What groups of different ranks have in common: purpose (empty where not told), size, and the steps between ranks."""

Mark = tuple[int | Role, int]
"""An operation that peers share: its group or that group's role, and its sequence number there."""


@dataclass(frozen=True, slots=True)
class Shift:
    """By how many operations a rank's sequence runs behind (negative: skipped) or ahead (positive: extra)."""

    by: int

    @property
    def kind(self) -> Kind | None:
        """The kind of fault that such a shift means; None for no shift."""
        if abs(self.by) > 1:
            return Kind.UNEVEN_ITERATIONS
        return {-1: Kind.MISSING_COLLECTIVE, 1: Kind.EXTRA_COLLECTIVE}.get(self.by)


class Programs:
    """Counts how many operations of one group stand before each operation of the others, by rank.

    Ranks of one tensor- or data-parallel group run the same program, so groups of one purpose count alike on them and
    the counts can be compared even where the groups themselves are different ones.
    """

    def __init__(self, views: Mapping[int, RankView], groups: Groups) -> None:
        self._views = views
        self._groups = groups
        self._roles: dict[int, Role] = {}
        self._places: dict[tuple[int, int], dict[Mark, tuple[int, int]]] = {}

    def shift(self, rank: int, group: int) -> Shift | None:
        """How far `rank` is off from its peers in `group`; None when too few can be compared or they disagree."""
        mine = self._before(rank, group)
        votes: Counter[int] = Counter()
        for peer in self._peers(rank):
            other = self._same_role(peer, group)
            if other is None or self._other_stage(rank, peer, group):
                continue
            theirs = self._before(peer, other)
            common = mine.keys() & theirs.keys()
            if common:
                newest = max(common, key=lambda mark: mine[mark][0])
                votes[mine[newest][1] - theirs[newest][1]] += 1
        if not votes:
            return None
        by, agreed = votes.most_common(1)[0]
        return Shift(by) if 3 * agreed > 2 * votes.total() else None

    def passed(self, rank: int, collective: Unit, transfer: Unit) -> bool:
        """Whether `rank`, which waits in a send or receive, has gone past a collective that it has not issued.

        It has, if its peers issued fewer sends and receives before that.
        """
        votes: Counter[bool] = Counter()
        for peer in self._peers(rank):
            transfers, collectives = self._same_role(peer, transfer.group), self._same_role(peer, collective.group)
            if transfers is None or collectives is None or self._other_stage(rank, peer, transfer.group):
                continue
            place = self._before(peer, transfers).get((collectives, collective.seq))
            if place is not None:
                votes[transfer.seq > place[1]] += 1
        return votes[True] > votes[False]

    def role(self, group: int) -> Role:
        """What a group has in common with those that other ranks use in its place."""
        if group not in self._roles:
            known = self._groups.known[group]
            steps = tuple(later - earlier for earlier, later in pairwise(known.ranks))
            self._roles[group] = (known.desc if known.described else "", len(known.ranks), steps)
        return self._roles[group]

    def siblings(self, group: int) -> list[int]:
        """The other groups of the same role."""
        size = len(self._groups.known[group].ranks)
        return [
            number
            for number, other in enumerate(self._groups.known)
            if number != group and len(other.ranks) == size and self.role(number) == self.role(group)
        ]

    def _peers(self, rank: int) -> list[int]:
        """Ranks that share a group with this one, smallest groups first; not pipelines, and the world only at need."""
        view = self._views[rank]
        shared = sorted((len(self._groups.known[g].ranks), g) for g in view.seats if g not in view.batches)
        peers = [m for size, g in shared if size < len(self._groups.world) for m in self._groups.known[g].ranks]
        if not peers:
            peers = [m for _, g in shared for m in self._groups.known[g].ranks]
        return [m for m in dict.fromkeys(peers) if m != rank and m in self._views][:_MAX_PEERS]

    def _other_stage(self, rank: int, peer: int, group: int) -> bool:
        """Whether two ranks send to each other through a group: stages of one pipeline send unequally often."""
        return group in self._views[rank].batches and peer in self._groups.known[group].ranks

    def _same_role(self, rank: int, group: int) -> int | None:
        """The group that `rank` uses where another uses `group`; None where there is none, or more than one."""
        seats = self._views[rank].seats
        if group in seats:
            return group
        alike = self._by_role(self._views[rank]).get(self.role(group), ())
        return alike[0] if len(alike) == 1 else None

    def _by_role(self, view: RankView) -> dict[Role, list[int]]:
        by_role: dict[Role, list[int]] = {}
        for group in view.seats:
            by_role.setdefault(self.role(group), []).append(group)
        return by_role

    def _before(self, rank: int, group: int) -> dict[Mark, tuple[int, int]]:
        """For each kept collective of another group: its record number, and the newest of `group` before it."""
        if (rank, group) not in self._places:
            self._places[rank, group] = self._count_before(self._views[rank], group)
        return self._places[rank, group]

    def _count_before(self, view: RankView, group: int) -> dict[Mark, tuple[int, int]]:
        rows = [(op.record, number, seq) for number, seat in view.seats.items() for seq, op in seat.ops.items()]
        if group in view.batches:
            rows = [row for row in rows if row[1] != group]
            rows += [(batch.record, group, batch.unit.seq) for batch in view.batches[group]]
            rows += [(record, group, seq) for record, seq in zip(*view.launches.get(group, ((), ())), strict=True)]
        lone = {own[0]: role for role, own in self._by_role(view).items() if len(own) == 1}
        places: dict[Mark, tuple[int, int]] = {}
        before: int | None = None
        for record, number, seq in sorted(rows):
            if number == group:
                before = seq
            elif before is not None:
                places[number, seq] = (record, before)
                if number in lone:
                    places[lone[number], seq] = (record, before)
        return places
