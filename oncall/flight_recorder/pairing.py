"""Pairs sends with receives. `p2p_seq_id` counts on each rank alone, so the two ends share no number."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.units import Batch, RankView, Transfer, Unit


class End(Enum):
    """What the other end of a transfer did."""

    NO_DUMP = auto()
    ABSENT = auto()
    HELD = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The other end of one transfer: which rank, what it did, and its batch and transfer where recorded."""

    rank: int
    end: End
    batch: Batch | None = None
    transfer: Transfer | None = None


_Ends = list[tuple[Batch, Transfer]]


class Pairing:
    """Finds counterparts by counting both ends from the newest collective before which both ranks have nothing open.

    A training step moves as many messages one way as the other end takes, between any two collectives that both ranks
    join. Without a shared collective both are counted from the start of the job if the rings still hold it, else the
    k-th open send is taken for the partner of the k-th open receive.
    """

    def __init__(self, views: Mapping[int, RankView], groups: Groups) -> None:
        self._views = views
        self._groups = groups
        self._ends: dict[tuple[int, int, bool, int, int], _Ends] = {}

    def counterparts(self, batch: Batch) -> list[Counterpart]:
        """The other end of each transfer of `batch`, in order."""
        return [self._counterpart(batch, transfer) for transfer in batch.transfers]

    def _counterpart(self, batch: Batch, transfer: Transfer) -> Counterpart:
        members = self._groups.known[batch.unit.group].ranks
        local = transfer.destination if transfer.sends else transfer.source
        if local >= len(members):
            return Counterpart(-1, End.NO_DUMP)
        other = members[local]
        here = self._views[batch.unit.rank if batch.unit.rank is not None else -1]
        there = self._views.get(other)
        if there is None:
            return Counterpart(other, End.NO_DUMP)
        mine = self._side(here, batch.unit.group, transfer.sends, transfer)
        theirs = self._side(there, batch.unit.group, not transfer.sends, transfer)
        place = next(i for i, (b, t) in enumerate(mine) if b is batch and t is transfer)
        partner = place + self._offset(here, there, mine, theirs)
        if partner >= len(theirs):
            return Counterpart(other, End.ABSENT)
        if partner < 0:
            return Counterpart(other, End.DONE)
        found, end = theirs[partner]
        return Counterpart(other, End.DONE if found.done else End.HELD, found, end)

    def _side(self, view: RankView, group: int, sends: bool, like: Transfer) -> _Ends:
        key = (view.rank, group, sends, like.source, like.destination)
        if key not in self._ends:
            self._ends[key] = [
                (batch, transfer)
                for batch in view.batches.get(group, ())
                for transfer in batch.transfers
                if (transfer.sends, transfer.source, transfer.destination) == (sends, like.source, like.destination)
            ]
        return self._ends[key]

    def _offset(self, here: RankView, there: RankView, mine: _Ends, theirs: _Ends) -> int:
        """What to add to a place in `mine` to get the place of its partner in `theirs`."""
        anchor = _shared_collective(here, there)
        if anchor is not None:
            mark_here, mark_there = here.seats[anchor.group].ops[anchor.seq], there.seats[anchor.group].ops[anchor.seq]
            before_here = sum(batch.record < mark_here.record for batch, _ in mine)
            before_there = sum(batch.record < mark_there.record for batch, _ in theirs)
            return before_there - before_here
        if _from_start(here, mine) and _from_start(there, theirs):
            return 0
        return _first_open(theirs) - _first_open(mine)


def _shared_collective(here: RankView, there: RankView) -> Unit | None:
    shared = [
        (op.record, Unit(group, seq))
        for group, seat in here.seats.items()
        if group in there.seats
        for seq, op in seat.ops.items()
        if op.record < here.settled and seq in there.seats[group].ops
        if there.seats[group].ops[seq].record < there.settled
    ]
    return max(shared)[1] if shared else None


def _from_start(view: RankView, ends: _Ends) -> bool:
    if not ends:
        return True
    batches = view.batches[ends[0][0].unit.group]
    return batches[0].unit.seq == 1


def _first_open(ends: _Ends) -> int:
    return next((i for i, (batch, _) in enumerate(ends) if not batch.done), len(ends))
