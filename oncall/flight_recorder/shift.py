"""Tells a skipped or extra collective from one that is merely different, by looking at how the neighbours shift."""

from collections.abc import Mapping
from itertools import count

from oncall.flight_recorder.frames import call_site, left_the_loop
from oncall.flight_recorder.mismatch import agree
from oncall.flight_recorder.model import Kind, Op
from oncall.flight_recorder.programs import Programs, Shift
from oncall.flight_recorder.units import RankView, Unit

_LOOK_AHEAD = 16
_PERIOD = 256
_CONTEXT = 3


def kind_of(unit: Unit, odd: RankView, peer: RankView, programs: Programs, plain: Kind) -> Kind:
    """What the odd rank did at `unit`; `plain` is the kind that comparing the two operations alone gives."""
    mine, theirs = odd.seats[unit.group].ops, peer.seats[unit.group].ops
    shift = programs.shift(odd.rank, unit.group)
    if shift is None or shift.kind is None:
        shift = by_successors(unit.seq, mine, theirs) or by_period(unit.seq, mine, theirs)
    if shift is None:
        return _by_call_site(mine[unit.seq], theirs[unit.seq], unit.seq == max(mine), plain)
    return shift.kind or plain


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
    return same_site and agree(a.signature, b.signature)


def _by_call_site(mine: Op, theirs: Op, newest: bool, plain: Kind) -> Kind:
    here, there = call_site(mine), call_site(theirs)
    if here is None or there is None:
        return plain
    if newest and left_the_loop(mine.stack, theirs.stack) and mine.signature.op != theirs.signature.op:
        return Kind.EARLY_EXIT
    elsewhere = (here.name, here.file) != (there.name, there.file)
    return Kind.EXTRA_COLLECTIVE if elsewhere and plain is not Kind.TYPE_MISMATCH else plain
