"""Finds who broke step in a ring of waiting: in a program that all ranks follow alike, waiting never closes a ring."""

from collections.abc import Sequence
from dataclasses import dataclass

from oncall.flight_recorder.model import Kind
from oncall.flight_recorder.programs import Programs
from oncall.flight_recorder.units import State, Unit
from oncall.flight_recorder.waits import Graph, Hold, Node


@dataclass(frozen=True, slots=True)
class Breach:
    """The operation at which ranks left the common program, who they are, and how."""

    kind: Kind
    ranks: tuple[int, ...]
    unit: Unit


def breach_of(nodes: Sequence[Node], graph: Graph, programs: Programs) -> Breach | None:
    """Judge a ring: first by the ranks whose order differs from their peers', then by majority; None for neither."""
    units = [node for node in nodes if isinstance(node, Unit)]
    units.sort(key=lambda unit: -len(graph.groups.known[unit.group].ranks))
    ranks = [node for node in nodes if not isinstance(node, Unit)]
    votes = [breach for unit in units if (breach := _by_majority(unit, graph)) is not None]
    suspects = votes[0].ranks if votes else tuple(ranks)
    shifted = [
        Breach(shift.kind, (rank,), unit)
        for unit in units
        for rank in suspects
        if (shift := programs.shift(rank, unit.group)) is not None and shift.kind is not None
    ]
    if shifted and (votes or len({breach.ranks for breach in shifted}) == 1):
        first = shifted[0]
        return Breach(first.kind, votes[0].ranks if votes else first.ranks, first.unit)
    if votes and votes[0].kind is Kind.MISSING_COLLECTIVE:
        return _jumped_ahead(votes[0], graph) or votes[0]
    return votes[0] if votes else None


def _jumped_ahead(missing: Breach, graph: Graph) -> Breach | None:
    """Read a missing operation as an extra one, where the rank waits in one that its peers issue much later.

    Else it would have had to skip all that its peers put between the two.
    """
    (rank, *others) = missing.ranks
    front = graph.views[rank].front
    if others or front is None or front.rank is not None:
        return None
    peers = [peer for peer in graph.standings[missing.unit].ops if front in graph.views[peer].pending]
    for peer in peers:
        pending = graph.views[peer].pending
        between = pending[pending.index(missing.unit) : pending.index(front)] if missing.unit in pending else []
        skipped = [unit for unit in between if unit.rank is None and _not_issued(unit, rank, graph)]
        return Breach(Kind.EXTRA_COLLECTIVE, (rank,), front) if len(skipped) > 2 else None
    return None


def _not_issued(unit: Unit, rank: int, graph: Graph) -> bool:
    seats = graph.views[rank].seats
    return unit.group not in seats or seats[unit.group].state(unit.seq) is State.NOT_ISSUED


def _by_majority(unit: Unit, graph: Graph) -> Breach | None:
    """The few that did not issue what the many wait in, or the few that issued what the many did not."""
    if unit.rank is not None:
        return None
    without = tuple(rank for rank, hold in graph.standings[unit].holds.items() if hold is Hold.NOT_ISSUED)
    standing = graph.standings[unit]
    issued = tuple(standing.ops)
    if len(without) * 2 < len(issued):
        return Breach(Kind.MISSING_COLLECTIVE, without, unit) if without else None
    if len(issued) * 2 < len(without):
        return Breach(Kind.EXTRA_COLLECTIVE, issued, unit)
    return None
