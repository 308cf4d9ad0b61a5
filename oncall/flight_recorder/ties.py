"""Breaks a tie between two sides of one operation by what other ranks of the same program, or earlier steps, did."""

from collections import Counter
from dataclasses import replace

from oncall.flight_recorder.mismatch import Disagreement, Vote, vote
from oncall.flight_recorder.model import Kind
from oncall.flight_recorder.programs import Programs
from oncall.flight_recorder.units import Unit
from oncall.flight_recorder.waits import Graph

_MAX_SIBLINGS = 32
_FEWEST_SIBLINGS = 2
"""With fewer, what is new on one side may be what the other should have done too."""


def outvote(found: Disagreement, unit: Unit, graph: Graph, programs: Programs) -> Disagreement:
    """Name the odd side of a tie: the one whose ranks are out of step, else the one that no sibling group issued here.

    What nobody issues anywhere else is odd too. Returns `found` unchanged when neither tells.
    """
    shifted = tuple(
        rank
        for side in found.sides
        for rank in side
        if (shift := programs.shift(rank, unit.group)) is not None and shift.kind is not None
    )
    if shifted and set(shifted) in [set(side) for side in found.sides]:
        return _with_odd(found, shifted)
    votes: Counter[Vote] = Counter()
    for group in programs.siblings(unit.group):
        for rank in graph.groups.known[group].ranks:
            view = graph.views.get(rank)
            op = view.seats[group].ops.get(unit.seq) if view and group in view.seats else None
            if op is not None:
                votes[vote(op.signature)] += 1
    ops = {rank: graph.views[rank].seats[unit.group].ops[unit.seq] for side in found.sides for rank in side}
    backed = sorted(((votes[vote(ops[side[0]].signature)], side) for side in found.sides), reverse=True)
    if backed[0][0] > 2 * sum(count for count, _ in backed[1:]):
        return _with_odd(found, tuple(rank for _, side in backed[1:] for rank in side))
    return _by_novelty(found, unit, graph, programs)


def _by_novelty(found: Disagreement, unit: Unit, graph: Graph, programs: Programs) -> Disagreement:
    """Name the side whose operation nobody issues anywhere else, in this group or in its siblings."""
    siblings = programs.siblings(unit.group)[:_MAX_SIBLINGS]
    if len(siblings) < _FEWEST_SIBLINGS:
        return found
    seen: Counter[Vote] = Counter()
    for group in (unit.group, *siblings):
        for rank in graph.groups.known[group].ranks:
            view = graph.views.get(rank)
            if view and group in view.seats:
                seen.update(vote(op.signature) for op in view.seats[group].ops.values())
    ops = {side: graph.views[side[0]].seats[unit.group].ops[unit.seq] for side in found.sides}
    novel = [side for side, op in ops.items() if seen[vote(op.signature)] == len(side)]
    if novel and len(novel) == len(found.sides) - 1:
        return _with_odd(found, tuple(rank for side in novel for rank in side))
    return found


def _with_odd(found: Disagreement, odd: tuple[int, ...]) -> Disagreement:
    sides = tuple(sorted(found.sides, key=lambda side: side[0] in odd))
    return replace(found, sides=sides, odd=tuple(sorted(odd)))


def odd_end(graph: Graph, unit: Unit) -> tuple[int, Kind] | None:
    """Which end of an unequal send and receive departs from what it always moved on that link, and in what.

    None where both ends do, or neither.
    """
    batch = graph.batches[unit]
    for other in graph.pairing.counterparts(batch):
        if other.own is None or other.transfer is None or other.batch is None or not other.disagrees:
            continue
        ends = [(batch, other.own), (other.batch, other.transfer)]
        odd = []
        for own, moved in ends:
            earlier = {
                t
                for b in graph.views[own.unit.rank or 0].batches[own.unit.group]
                for t in b.transfers
                if b is not own and (t.sends, t.source, t.destination) == (moved.sends, moved.source, moved.destination)
            }
            if earlier and moved not in earlier:
                odd.append(own.unit.rank or 0)
        if len(odd) == 1:
            sized = other.own.elements != other.transfer.elements
            return odd[0], Kind.SIZE_MISMATCH if sized else Kind.DTYPE_MISMATCH
    return None
