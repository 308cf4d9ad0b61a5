"""Compares the order in which ranks that run the same program use their groups: who is one operation short or ahead."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import Kind
from oncall.flight_recorder.units import RankView

_MAX_PEERS = 32

Mark = tuple[str, int]
"""An operation that peers share by role: the purpose of its group, and its sequence number there."""


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
        self._places: dict[tuple[int, int], dict[Mark, tuple[int, int]]] = {}

    def shift(self, rank: int, group: int) -> Shift | None:
        """How far `rank` is off from its peers in `group`; None when too few can be compared or they disagree."""
        mine = self._before(rank, group)
        votes: Counter[int] = Counter()
        for peer in self._peers(rank):
            other = self._same_role(peer, group)
            if other is None:
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

    def role(self, group: int) -> str:
        """The purpose of a group; its name where none was given."""
        known = self._groups.known[group]
        return known.desc or known.name

    def siblings(self, group: int) -> list[int]:
        """The other groups of the same purpose and size."""
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

    def _same_role(self, rank: int, group: int) -> int | None:
        seats = self._views[rank].seats
        if group in seats:
            return group
        return next((g for g in seats if self.role(g) == self.role(group)), None)

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
        places: dict[Mark, tuple[int, int]] = {}
        before: int | None = None
        for record, number, seq in sorted(rows):
            if number == group:
                before = seq
            elif before is not None:
                places[self.role(number), seq] = (record, before)
        return places
