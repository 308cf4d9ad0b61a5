"""Finds who broke step in a ring of waiting: in a program that all ranks follow alike, waiting never closes a ring."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from oncall.flight_recorder.model import Kind
from oncall.flight_recorder.programs import Programs
from oncall.flight_recorder.units import State, Unit
from oncall.flight_recorder.waits import Graph, Hold, Node

_FEW = 2
"""Operations between two of a rank that a single skip may leave out; more means that the second one came too early."""


@dataclass(frozen=True, slots=True)
class Breach:
    """The operation at which ranks left the common program, who they are, and how."""

    kind: Kind
    ranks: tuple[int, ...]
    unit: Unit


def breach_of(nodes: Sequence[Node], graph: Graph, programs: Programs) -> Breach | None:
    """Judge a ring: by majority over its operations, else by the one rank whose order differs from its peers'."""
    units = [node for node in nodes if isinstance(node, Unit)]
    units.sort(key=lambda unit: -len(graph.groups.known[unit.group].ranks))
    ring = {node for node in nodes if not isinstance(node, Unit)}
    found = (_by_majority(unit, graph) for unit in units)
    votes = [breach for breach in found if breach is not None and ring.issuperset(breach.ranks)]
    if not votes:
        shifted = _by_shift(units, sorted(ring), programs)
        return shifted[0] if len({breach.ranks for breach in shifted}) == 1 else None
    suspects = Counter(breach.ranks for breach in votes).most_common(1)[0][0]
    first = next(breach for breach in votes if breach.ranks == suspects)
    if first.kind is Kind.MISSING_COLLECTIVE:
        return _jumped_ahead(first, graph) or first
    skipped = [b for b in _by_shift(units, suspects, programs) if b.kind is Kind.MISSING_COLLECTIVE]
    return skipped[0] if skipped else _left_behind(first, units, graph) or first


def _by_majority(unit: Unit, graph: Graph) -> Breach | None:
    """The few that did not issue what the many wait in, or the few that wait in what the many did not come to."""
    if unit.rank is not None:
        return None
    standing = graph.standings[unit]
    without = tuple(rank for rank, hold in standing.holds.items() if hold is Hold.NOT_ISSUED)
    later = [rank for rank, hold in standing.holds.items() if hold is Hold.QUEUED]
    if without and 2 * len(without) < len(standing.joined) + len(later):
        return Breach(Kind.MISSING_COLLECTIVE, without, unit)
    if standing.joined and 2 * len(standing.joined) < len(without) + len(later):
        return Breach(Kind.EXTRA_COLLECTIVE, standing.joined, unit)
    return None


def _by_shift(units: Sequence[Unit], suspects: Sequence[int], programs: Programs) -> list[Breach]:
    """The suspects that are out of step with their peers, smallest first: one skipped operation moves others far."""
    rows = [
        (abs(shift.by), Breach(shift.kind, (rank,), unit))
        for unit in units
        for rank in suspects
        if (shift := programs.shift(rank, unit.group)) is not None and shift.kind is not None
    ]
    return [breach for _, breach in sorted(rows, key=lambda row: row[0])]


def _jumped_ahead(missing: Breach, graph: Graph) -> Breach | None:
    """Read a missing operation as an extra one, where the rank waits in one that its peers issue much later.

    Else it would have had to skip all that its peers put between the two.
    """
    (rank, *others) = missing.ranks
    front = graph.views[rank].front
    if others or front is None or front.rank is not None:
        return None
    for peer in graph.standings[missing.unit].ops:
        pending = graph.views[peer].pending
        if missing.unit in pending and front in pending:
            between = pending[pending.index(missing.unit) : pending.index(front)]
            skipped = [unit for unit in between if unit.rank is None and _not_issued(unit, rank, graph)]
            return Breach(Kind.EXTRA_COLLECTIVE, (rank,), front) if len(skipped) > _FEW else None
    return None


def _left_behind(extra: Breach, units: Sequence[Unit], graph: Graph) -> Breach | None:
    """Read an extra operation as one after a skip, where the rank comes to what its peers wait in only much later."""
    if len(extra.ranks) != 1:
        return None
    pending = graph.views[extra.ranks[0]].pending
    late = [unit for unit in units if unit.rank is None and unit in pending[_FEW + 1 :]]
    return Breach(Kind.MISSING_COLLECTIVE, extra.ranks, late[0]) if late else None


def _not_issued(unit: Unit, rank: int, graph: Graph) -> bool:
    seats = graph.views[rank].seats
    return unit.group not in seats or seats[unit.group].state(unit.seq) is State.NOT_ISSUED
