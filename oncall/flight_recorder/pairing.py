"""Pairs sends with receives. `p2p_seq_id` counts on each rank alone, so the two ends share no number."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import Channel
from oncall.flight_recorder.units import Batch, RankView, Transfer, Unit


class End(Enum):
    """What the other end of a transfer did."""

    NO_DUMP = auto()
    ABSENT = auto()
    HELD = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class Counterpart:
    """The other end of one transfer: which rank, what it did, and its batch and transfer where recorded.

    `own` is the transfer at this end; one that names no other end has none. `guessed` says that the rings no longer
    reach back to anything that both ends can be counted from.
    """

    rank: int
    end: End
    own: Transfer | None = None
    batch: Batch | None = None
    transfer: Transfer | None = None
    guessed: bool = False

    @property
    def disagrees(self) -> bool:
        """Whether the two ends do not move the same."""
        return self.own is not None and self.transfer is not None and not self.own.agrees(self.transfer)


@dataclass(frozen=True, slots=True)
class Side:
    """One end of a channel: the record numbers of all its transfers in the ring, and the newest of them in full."""

    records: Sequence[int]
    ends: Sequence[tuple[Batch, Transfer]]

    @property
    def left_out(self) -> int:
        """How many older ones are known by their number alone."""
        return len(self.records) - len(self.ends)

    @property
    def first_open(self) -> int:
        """The place of the oldest that is not over, counted like `records`."""
        opened = (i for i, (batch, _) in enumerate(self.ends) if not batch.done)
        return self.left_out + next(opened, len(self.ends))


class Pairing:
    """Finds counterparts by counting both ends from the newest collective before which both ranks have nothing open.

    A training step moves as many messages one way as the other end takes, between any two collectives that both ranks
    join. Without a shared collective both are counted from the start of the job if the rings still hold it, else the
    k-th open send is taken for the partner of the k-th open receive.
    """

    def __init__(self, views: Mapping[int, RankView], groups: Groups) -> None:
        self._views = views
        self._groups = groups
        self._sides: dict[tuple[int, int, bool, int, int], Side] = {}

    def counterparts(self, batch: Batch) -> list[Counterpart]:
        """The other end of each transfer of `batch`, in order; of a receive from any source all that may be it."""
        found = [self._counterpart(batch, transfer) for transfer in batch.transfers]
        return [*found, *self._senders(batch)] if batch.open_ended else found

    def twin(self, batch: Batch) -> Batch | None:
        """The one batch that takes all of `batch`, and nothing else."""
        other = self._sole_partner(batch)
        return other if other is not None and self._sole_partner(other) is batch else None

    def _sole_partner(self, batch: Batch) -> Batch | None:
        found = self.counterparts(batch)
        partner = found[0].batch if found else None
        return partner if all(c.end is End.HELD and c.batch is partner for c in found) else None

    def _senders(self, taker: Batch) -> Iterator[Counterpart]:
        """Open sends to the rank of `taker` for which it has no receive that names their source."""
        group = taker.unit.group
        members = self._groups.known[group].ranks
        local = next((place for place, rank in enumerate(members) if rank == taker.unit.rank), None)
        for rank in members:
            for batch in self._views[rank].batches.get(group, ()) if rank in self._views else ():
                here = [t for t in batch.transfers if t.sends and t.destination == local]
                if not batch.done and any(self._counterpart(batch, t).batch is taker for t in here):
                    yield Counterpart(rank, End.HELD, batch=batch)

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
        group = batch.unit.group
        mine = self._side(here, group, transfer.sends, transfer)
        theirs = self._side(there, group, not transfer.sends, transfer)
        place = next(i for i, (b, t) in enumerate(mine.ends) if b is batch and t is transfer)
        offset = _offset(here, there, mine, theirs, group)
        guessed = offset is None
        if offset is None:
            offset = theirs.first_open - mine.first_open
        partner = mine.left_out + place + offset - theirs.left_out
        if partner >= len(theirs.ends):
            taker = next((b for b in there.batches.get(group, ()) if b.open_ended and not b.done), None)
            if taker is not None and transfer.sends:
                return Counterpart(other, End.HELD, transfer, taker)
            return Counterpart(other, End.ABSENT, guessed=guessed)
        if partner < 0:
            return Counterpart(other, End.DONE, guessed=guessed)
        found, end = theirs.ends[partner]
        return Counterpart(other, End.DONE if found.done else End.HELD, transfer, found, end, guessed)

    def _side(self, view: RankView, group: int, sends: bool, like: Transfer) -> Side:
        key = (view.rank, group, sends, like.source, like.destination)
        if key not in self._sides:
            ends = [
                (batch, transfer)
                for batch in view.batches.get(group, ())
                for transfer in batch.transfers
                if (transfer.sends, transfer.source, transfer.destination) == key[2:]
            ]
            channel = Channel(self._groups.known[group].name, *key[2:])
            records = view.channels.get(channel, ())
            whole = len(records) >= len(ends)
            self._sides[key] = Side(records if whole else [batch.record for batch, _ in ends], ends)
        return self._sides[key]


def _offset(here: RankView, there: RankView, mine: Side, theirs: Side, group: int) -> int | None:
    """What to add to a place in `mine` to get the place of its partner in `theirs`; None where nothing tells."""
    anchor = _shared_collective(here, there)
    if anchor is not None:
        mark_here, mark_there = here.seats[anchor.group].ops[anchor.seq], there.seats[anchor.group].ops[anchor.seq]
        return bisect_left(theirs.records, mark_there.record) - bisect_left(mine.records, mark_here.record)
    if _from_start(here, mine, group) and _from_start(there, theirs, group):
        return 0
    return None


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


def _from_start(view: RankView, side: Side, group: int) -> bool:
    """Whether the ring holds all transfers of the group: it begins with the job, or with the group's first."""
    if view.since_start or not side.records:
        return True
    _, older = view.launches.get(group, ((), ()))
    seqs = older or [batch.unit.seq for batch in view.batches.get(group, ())]
    return bool(seqs) and seqs[0] == 1
