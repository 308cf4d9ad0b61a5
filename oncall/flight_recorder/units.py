"""What each rank holds: collectives by (group, sequence) and batches of sends and receives, with how far each got."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.launches import Launches, Recorded, sort_out
from oncall.flight_recorder.model import Channel, Counters, Op, RankDump


class Unit(NamedTuple):
    """What ranks wait on: a collective (`rank` is None), or one rank's batch of sends and receives."""

    group: int
    seq: int
    rank: int | None = None


class State(Enum):
    """How far one member got with one collective."""

    UNKNOWN = auto()
    NOT_ISSUED = auto()
    IN_LAUNCH = auto()
    PENDING = auto()
    DONE = auto()


@dataclass(slots=True)
class Seat:
    """One rank's place in one group; all numbers are lower bounds, None where the dump does not say.

    `recorded` is the highest sequence number with an entry, `enqueued` the highest that came back from the launch call,
    `completed` the highest that ended. `complete_view` says that an operation without an entry was never issued.
    `building` is a coalesced launch to which the host still adds operations.
    """

    recorded: int | None = None
    enqueued: int | None = None
    completed: int | None = None
    complete_view: bool = False
    in_order: bool = True
    building: int | None = None
    ops: dict[int, Op] = field(default_factory=dict)

    @property
    def issued(self) -> int | None:
        """The highest sequence number that this member has issued: 0 for none, None where the dump does not say."""
        known = [n for n in (self.recorded, self.enqueued) if n is not None]
        return max(known, default=0 if self.complete_view else None)

    def state(self, seq: int) -> State:
        """Where this member stands with the collective `seq`."""
        op = self.ops.get(seq)
        if (op is not None and op.done) or (self.in_order and self.completed is not None and seq <= self.completed):
            return State.DONE
        if op is not None:
            in_launch = self.in_order and self.enqueued is not None and seq > self.enqueued
            return State.IN_LAUNCH if in_launch or seq == self.building else State.PENDING
        issued = self.issued
        if issued is None:
            return State.UNKNOWN
        if seq > issued:
            return State.NOT_ISSUED
        # Issued, and neither listed as open nor counted as complete: an entry that left the ring was complete.
        return State.PENDING if self.completed is not None and seq > self.completed else State.DONE


class Transfer(NamedTuple):
    """One send or receive of a batch: group-local ends, element count and type."""

    sends: bool
    source: int
    destination: int
    elements: int | None
    dtype: str | None

    def agrees(self, other: "Transfer") -> bool:
        """Whether both ends move the same; a type that one does not tell is no difference."""
        return self.elements == other.elements and (self.dtype == other.dtype or None in {self.dtype, other.dtype})


class Batch(NamedTuple):
    """Sends and receives launched together by one rank; a plain send is a batch of one.

    `open_ended` says that one of them names no other end, as a receive from any source; it is no `transfer`.
    """

    unit: Unit
    record: int
    transfers: tuple[Transfer, ...]
    open_ended: bool
    done: bool
    op: Op


@dataclass(slots=True)
class RankView:
    """One rank as the graph sees it.

    `pending` is in record order: its first unit is what the rank waits on. All recorded before `settled` is over.
    `launches` are the record and p2p sequence numbers of sends and receives older than the `batches`.
    `since_start` says that the ring still begins with the job and lists what is over.
    """

    rank: int
    seats: dict[int, Seat] = field(default_factory=dict)
    batches: dict[int, list[Batch]] = field(default_factory=dict)
    pending: list[Unit] = field(default_factory=list)
    settled: int = 1 << 64
    since_start: bool = False
    channels: Mapping[Channel, Sequence[int]] = field(default_factory=dict)
    launches: Mapping[int, tuple[Sequence[int], Sequence[int]]] = field(default_factory=dict)
    last: Op | None = None

    @property
    def front(self) -> Unit | None:
        """The first operation that has not ended, if there is one."""
        return self.pending[0] if self.pending else None


def view_ranks(dumps: Mapping[int, RankDump], groups: Groups) -> dict[int, RankView]:
    """Build every rank's view from its dump."""
    p2p_groups = {groups.of[rank][op.group] for rank, dump in dumps.items() for op in dump.ops if op.peers is not None}
    rows = {rank: sort_out(dump, groups.of[rank], p2p_groups) for rank, dump in dumps.items()}
    launches = Launches(dumps, rows)
    return {rank: _view(dump, groups.of[rank], p2p_groups, rows.pop(rank), launches) for rank, dump in dumps.items()}


def _view(dump: RankDump, of: Mapping[str, int], p2p_groups: set[int], rows: Recorded, launches: Launches) -> RankView:
    view = RankView(
        dump.rank,
        since_start=not dump.wrapped and not dump.only_active and dump.total > 0,
        channels=dump.channels,
        launches={of[name]: columns for name, columns in dump.launches.items() if name in of},
        last=dump.ops[-1] if dump.ops else None,
    )
    for (group, seq), same in rows.launched.items():
        rows.collectives[group][seq] = launches.merged((group, seq), same)
    for name, group in of.items():
        seat = _seat(dump, name, rows.collectives[group], group in p2p_groups, view.since_start)
        seat.building = launches.building(group, seat.ops)
        view.seats[group] = seat
    for group, ops in rows.p2p.items():
        view.batches[group] = _batches(dump, group, ops)
    pending = _pending(view)
    view.pending = [unit for _, unit in pending]
    if pending:
        view.settled = pending[0][0]
    return view


def _seat(dump: RankDump, name: str, ops: dict[int, Op], has_p2p: bool, complete_view: bool) -> Seat:
    # In a group used for both kinds the counters mix collectives with sends and receives; gloo's always do.
    counters = dump.counters.get(name) if dump.device and not has_p2p else None
    finished = [seq for seq, op in ops.items() if op.done]
    if counters is not None and counters.completed is not None:
        finished.append(counters.completed)
    open_ones = [seq for seq, op in ops.items() if not op.done]
    completed = max(finished, default=None)
    if completed is None and open_ones:
        completed = min(open_ones) - 1
    return Seat(
        recorded=max(ops, default=None),
        enqueued=counters.enqueued if counters and not _uncounted(counters, ops) else None,
        completed=completed,
        complete_view=complete_view,
        in_order=dump.device,
        ops=ops,
    )


def _uncounted(counters: Counters, ops: Mapping[int, Op]) -> bool:
    """Whether the counter of enqueued operations was never moved: a host is inside of one launch call at a time."""
    return counters.enqueued == 0 and (len(ops) > 1 or any(op.done for op in ops.values()))


def _batches(dump: RankDump, group: int, ops: Sequence[Op]) -> list[Batch]:
    launches: list[list[Op]] = []
    for op in ops:
        if launches and launches[-1][0].p2p_seq == op.p2p_seq and launches[-1][-1].peers is not None:
            launches[-1].append(op)
        else:
            launches.append([op])
    counters = dump.counters.get(ops[0].group)
    batched = any(len(launch) > 1 for launch in launches) or _only_inner(
        launches, counters.completed if counters else None
    )
    batches = []
    for launch in launches:
        first, last = launch[0], launch[-1]
        if first.peers is None:
            continue
        done = last.done
        if batched and last.peers is not None:
            building = launch is launches[-1] and last is dump.ops[-1] and not dump.only_active
            done = not building
        transfers = tuple([transfer for op in launch if (transfer := _transfer(op)) is not None])
        open_ended = any(op.peers == (None, None) for op in launch)
        batches.append(Batch(Unit(group, first.p2p_seq, dump.rank), first.record, transfers, open_ended, done, first))
    return batches


def _transfer(op: Op) -> Transfer | None:
    source, destination = op.peers or (None, None)
    if source is None or destination is None:
        return None
    _, dtypes, elements, *_ = op.signature
    return Transfer(op.signature.op == "send", source, destination, elements, dtypes[0] if dtypes else None)


def _only_inner(launches: Sequence[Sequence[Op]], completed: int | None) -> bool:
    """Whether these are the inner operations of batches whose closing entries a dump of active ones left out.

    A pending plain send stays a few operations behind the counter at most; inner operations of finished batches stay
    `scheduled` for ever and fill the ring.
    """
    return (
        completed is not None and sum(not launch[0].done and launch[0].p2p_seq <= completed for launch in launches) >= 8
    )


def _pending(view: RankView) -> list[tuple[int, Unit]]:
    rows = [
        (op.record, Unit(group, seq))
        for group, seat in view.seats.items()
        for seq, op in seat.ops.items()
        if not op.done and seat.state(seq) in (State.PENDING, State.IN_LAUNCH)
    ]
    rows += [(b.record, b.unit) for batches in view.batches.values() for b in batches if not b.done]
    return sorted(rows, key=lambda row: row[0])
