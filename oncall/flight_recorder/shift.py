"""Tells a skipped or extra collective from one that is merely different, by looking at how the neighbours shift."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from oncall.flight_recorder.frames import call_site, left_the_loop
from oncall.flight_recorder.mismatch import vote
from oncall.flight_recorder.model import Group, Kind, Op
from oncall.flight_recorder.units import RankView, Unit

_LOOK_AHEAD = 16
_PERIOD = 256
_CONTEXT = 3


@dataclass(frozen=True, slots=True)
class Shift:
    """By how many operations the rank's sequence runs behind (negative: skipped) or ahead (positive: extra)."""

    by: int

    @property
    def kind(self) -> Kind | None:
        """The kind of fault that such a shift means; None for no shift."""
        if abs(self.by) > 1:
            return Kind.UNEVEN_ITERATIONS
        return {-1: Kind.MISSING_COLLECTIVE, 1: Kind.EXTRA_COLLECTIVE}.get(self.by)


def kind_of(unit: Unit, odd: RankView, peers: Sequence[RankView], groups: Sequence[Group], plain: Kind) -> Kind:
    """What the odd rank did at `unit`; `plain` is the kind that comparing the two operations alone gives."""
    mine, theirs = odd.seats[unit.group].ops, peers[0].seats[unit.group].ops
    shift = by_other_groups(unit, odd, peers, groups) or by_successors(unit.seq, mine, theirs)
    if shift is None:
        shift = by_period(unit.seq, mine, theirs)
    if shift is not None and shift.kind is not None:
        return shift.kind
    if shift is None:
        return _by_call_site(mine[unit.seq], theirs[unit.seq], unit.seq == max(mine), plain)
    return plain


def by_other_groups(unit: Unit, odd: RankView, peers: Sequence[RankView], groups: Sequence[Group]) -> Shift | None:
    """Compare how many operations of this group stand before the next operation of another one.

    Groups of one purpose count alike on ranks that run the same program, so a peer is used only if it agreed with the
    odd rank at their earliest common operation.
    """
    mine = _places(odd, unit.group, groups)
    for peer in peers:
        theirs = _places(peer, unit.group, groups)
        mark = peer.seats[unit.group].ops[unit.seq].record
        common = sorted((theirs[key].record, key) for key in theirs.keys() & mine.keys())
        if not common or mine[common[0][1]].before != theirs[common[0][1]].before:
            continue
        after = next((key for record, key in common if record > mark), None)
        if after is not None:
            return Shift(mine[after].before - theirs[after].before)
    return None


@dataclass(frozen=True, slots=True)
class _Place:
    record: int
    before: int


def _places(view: RankView, group: int, groups: Sequence[Group]) -> dict[tuple[str, int], _Place]:
    """For each kept operation of another group, the newest sequence number of `group` that precedes it."""
    rows = sorted((op.record, number, seq) for number, seat in view.seats.items() for seq, op in seat.ops.items())
    places = {}
    before = None
    for record, number, seq in rows:
        if number == group:
            before = seq
        elif before is not None:
            places[groups[number].desc or groups[number].name, seq] = _Place(record, before)
    return places


def by_successors(seq: int, mine: Mapping[int, Op], theirs: Mapping[int, Op]) -> Shift | None:
    """Lay the odd rank's sequence over its peers' at several offsets and take the one that fits all that is there."""
    fits = {by: _fit(seq, by, mine, theirs) for by in (-1, 0, 1, -2, 2, -3, 3, -4, 4)}
    best = max(fits.values())
    if best < 1:
        return None
    return Shift(next(by for by, length in fits.items() if length == best))


def _fit(seq: int, by: int, mine: Mapping[int, Op], theirs: Mapping[int, Op]) -> int:
    """How many successors agree when the odd rank runs `by` operations ahead; 0 as soon as one does not."""
    start = seq if by < 0 else seq + max(by, 1)
    length = 0
    for at in range(start, start + _LOOK_AHEAD):
        if at not in mine or at - by not in theirs:
            break
        if not _alike(mine[at], theirs[at - by]):
            return 0
        length += 1
    return length


def by_period(seq: int, mine: Mapping[int, Op], theirs: Mapping[int, Op]) -> Shift | None:
    """Read what the peers would issue next from the last time they were at this point of the step.

    A host that blocks in each operation leaves nothing behind the fault to compare with.
    """
    context = [theirs.get(seq - i) for i in range(_CONTEXT)]
    for earlier in range(seq - 1, max(seq - _PERIOD, 0), -1):
        past = [theirs.get(earlier - i) for i in range(_CONTEXT)]
        if all(a is not None and b is not None and _alike(a, b) for a, b in zip(context, past, strict=True)):
            for skipped in count(1):
                expected = theirs.get(earlier + skipped)
                if expected is None or earlier + skipped >= seq or skipped > 4:
                    return None
                if _alike(expected, mine[seq]) and not _alike(expected, theirs[seq]):
                    return Shift(-skipped)
    return None


def _alike(a: Op, b: Op) -> bool:
    here, there = call_site(a), call_site(b)
    same_site = here is None or there is None or (here.name, here.file) == (there.name, there.file)
    return same_site and vote(a.signature) == vote(b.signature)


def _by_call_site(mine: Op, theirs: Op, newest: bool, plain: Kind) -> Kind:
    here, there = call_site(mine), call_site(theirs)
    if here is None or there is None:
        return plain
    if newest and left_the_loop(mine.stack, theirs.stack) and mine.signature.op != theirs.signature.op:
        return Kind.EARLY_EXIT
    elsewhere = (here.name, here.file) != (there.name, there.file)
    return Kind.EXTRA_COLLECTIVE if elsewhere and plain is not Kind.TYPE_MISMATCH else plain
