"""Dumps that were not taken at the same moment: which of them are older than those of their peers."""

from collections.abc import Collection, Mapping, Sequence

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import RankDump
from oncall.flight_recorder.units import RankView, Seat, State

ROOTED = {"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "gather", "scatter"}
"""Operations that one member may finish before another has joined."""
_PARTIAL = ROOTED | {"all_to_all", "coalesced", "unnamed"}
"""Operations that one member may finish before another has joined, or may be such: a split may be empty."""

FAR_BEHIND = 8
"""Operations. Dumps a few milliseconds apart differ by less; a rank whose device is lost falls behind without limit."""

_ANOTHER_INCIDENT_S = 3600.0
"""The ranks of one hang dump within minutes; no host's clock is off by more, unless nobody ever set it."""
_ALIKE_NS = 10 * 10**9
"""Ranks whose times are off by the same to within this have a clock in common."""


def outrun(views: Mapping[int, RankView], groups: Groups) -> dict[int, int]:
    """The ranks whose dump is older than a peer's, with the number of operations that it lacks.

    An operation that needs all members is over nowhere before each has issued it. One that does not, or a failed one
    that gloo counts as done, leaves a member behind by a few.
    """
    old: dict[int, int] = {}
    for number, group in enumerate(groups.known):
        seats = {rank: seat for rank in group.ranks if rank in views and (seat := views[rank].seats.get(number))}
        needed = max(map(_newest_needed, seats.values()), default=0)
        ended = max(map(_newest_ended, seats.values()), default=0)
        for rank, seat in seats.items():
            if seat.issued is not None and (seat.issued < needed or seat.issued + FAR_BEHIND < ended):
                old[rank] = max(needed - seat.issued, ended - seat.issued, old.get(rank, 0))
    return old


def _newest_needed(seat: Seat) -> int:
    """The newest operation this member is done with that needs all members; 0 for none."""
    if not seat.in_order:
        return 0
    ended = (seq for seq, op in seat.ops.items() if op.signature.op not in _PARTIAL and seat.state(seq) is State.DONE)
    newest = max(ended, default=0)
    counted = _newest_ended(seat)
    return newest if counted in seat.ops else max(newest, counted)


def _newest_ended(seat: Seat) -> int:
    """The newest operation this member is done with; a counter beyond all entries may count sends and receives too."""
    if seat.completed is None or seat.recorded is None or seat.completed > seat.recorded:
        return 0
    return seat.completed


def hours_before(rank: int, dumps: Mapping[int, RankDump], others: Collection[int]) -> float | None:
    """How many hours the newest operation of `rank` was issued before theirs; None for less than an hour."""
    mine = _newest_ns(dumps[rank])
    theirs = sorted(ns for other in others if other in dumps and (ns := _newest_ns(dumps[other])) is not None)
    if mine is None or not theirs:
        return None
    behind_s = (theirs[len(theirs) // 2] - mine) / 1e9
    return behind_s / 3600 if behind_s >= _ANOTHER_INCIDENT_S else None


def of_another_time(dumps: Mapping[int, RankDump]) -> list[int]:
    """Ranks that issued the same operations hours before their peers, each alone in that.

    Such a file is left from an earlier incident that had come as far. A clock that is off is that of all ranks of a
    host; where a host has one rank, the two cannot be told apart.
    """
    newest = {rank: ns for rank, dump in dumps.items() if (ns := _newest_ns(dump)) is not None}
    middle = sorted(newest.values())[len(newest) // 2] if newest else 0
    early = {rank: ns for rank, ns in newest.items() if middle - ns >= _ANOTHER_INCIDENT_S * 1e9}
    return [
        rank
        for rank, ns in early.items()
        if not any(other != rank and abs(ns - theirs) < _ALIKE_NS for other, theirs in early.items())
        and _issued_before(dumps[rank], [dump for other, dump in dumps.items() if other not in early])
    ]


def _issued_before(mine: RankDump, peers: Sequence[RankDump]) -> bool:
    own = {(op.group, op.seq): op.created_ns for op in mine.ops if op.created_ns is not None and op.peers is None}
    apart_ns = sorted(
        op.created_ns - own[op.group, op.seq]
        for peer in peers
        for op in peer.ops
        if op.created_ns is not None and op.peers is None and (op.group, op.seq) in own
    )
    return bool(apart_ns) and apart_ns[len(apart_ns) // 2] >= _ANOTHER_INCIDENT_S * 1e9


def _newest_ns(dump: RankDump) -> int | None:
    return max((op.created_ns for op in dump.ops if op.created_ns is not None), default=None)
