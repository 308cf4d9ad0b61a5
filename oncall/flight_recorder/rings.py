"""Finds who broke step in a ring of waiting: in a program that all ranks follow alike, waiting never closes a ring."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oncall.flight_recorder.model import Kind
from oncall.flight_recorder.programs import Programs
from oncall.flight_recorder.sinks import sinks_of
from oncall.flight_recorder.units import State, Unit
from oncall.flight_recorder.waits import Graph, Hold, Node

_UNPAIRED = {Hold.UNMATCHED, Hold.MAY_SEND}
_MAX_PEERS = 32
_FEW = 2
"""Operations between two of a rank that a single skip may leave out; more means that the second one came too early."""


@dataclass(frozen=True, slots=True)
class Breach:
    """The operation at which ranks left the common program, who they are, and how."""

    kind: Kind
    ranks: tuple[int, ...]
    unit: Unit


class Unpaired(NamedTuple):
    """A send or receive without its other end; `ranks` are who waits in it and who may have left that out."""

    unit: Unit
    ranks: tuple[int, ...]


def breach_of(nodes: Sequence[Node], graph: Graph, programs: Programs) -> Breach | None:
    """Judge a ring: by majority over its operations, else by the one rank whose order differs from its peers'."""
    units = [node for node in nodes if isinstance(node, Unit)]
    units.sort(key=lambda unit: -len(graph.groups.known[unit.group].ranks))
    ring = {node for node in nodes if not isinstance(node, Unit)}
    breach = _suspected(units, ring, graph, programs)
    return None if breach is not None and _other_order(breach, graph) else breach


def _suspected(units: Sequence[Unit], ring: set[int], graph: Graph, programs: Programs) -> Breach | None:
    """Who seems to have left the common program in a ring."""
    found = (_by_majority(unit, graph, programs) for unit in units)
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


def _by_majority(unit: Unit, graph: Graph, programs: Programs) -> Breach | None:
    """The few that did not issue what the many wait in, or the few that wait in what the many did not come to."""
    if unit.rank is not None:
        return None
    standing = graph.standings[unit]
    without = tuple(rank for rank, hold in standing.holds.items() if hold is Hold.NOT_ISSUED)
    later = [rank for rank, hold in standing.holds.items() if hold is Hold.QUEUED]
    if without and 2 * len(without) < len(standing.joined) + len(later):
        skipped = not any(_on_the_way(rank, unit, graph, programs) for rank in without)
        return Breach(Kind.MISSING_COLLECTIVE, without, unit) if skipped else None
    elsewhere = [rank for rank in later if not _guessed(rank, graph)]
    if standing.joined and 2 * len(standing.joined) < len(without) + len(elsewhere):
        return Breach(Kind.EXTRA_COLLECTIVE, standing.joined, unit)
    return None


def _guessed(rank: int, graph: Graph) -> bool:
    """Whether it is not told what a rank waits for: its send or receive may be over at the other end."""
    front = graph.views[rank].front
    standing = graph.standings.get(front) if front is not None else None
    return standing is not None and standing.guessed


def _on_the_way(rank: int, unit: Unit, graph: Graph, programs: Programs) -> bool:
    """Whether the rank is held up in a send or receive without its other end, and may yet come to the collective."""
    front = graph.views[rank].front
    standing = graph.standings.get(front) if front is not None and front.rank is not None else None
    if front is None or standing is None or _UNPAIRED.isdisjoint(standing.holds.values()):
        return False
    return not programs.passed(rank, unit, front)


def _other_order(breach: Breach, graph: Graph) -> bool:
    """Whether the suspects issued all that their peers did, and these all that the suspects did, in another order."""
    peers = [rank for rank in graph.standings[breach.unit].ops if rank not in breach.ranks][:_MAX_PEERS]
    return bool(peers) and all(_reordered(rank, peer, graph) for rank in breach.ranks for peer in peers)


def _reordered(rank: int, peer: int, graph: Graph) -> bool:
    """Whether two ranks wait in the same collectives in different orders, and go on alike behind them.

    After a skipped operation they would never be in step again.
    """
    here, there = graph.views[rank], graph.views[peer]
    shared = here.seats.keys() & there.seats.keys()
    mine, theirs = ([u for u in v.pending if u.rank is None and u.group in shared] for v in (here, there))
    lone: set[Unit] = set()
    for place, (own, other) in enumerate(zip(mine, theirs, strict=False), 1):
        if own != other:
            lone ^= {own, other}
            if not lone:
                rest = mine[place:], theirs[place:]
                return bool(rest[0]) == bool(rest[1]) and all(a == b for a, b in zip(*rest, strict=False))
    return False


def unpaired_in(nodes: Sequence[Node], graph: Graph) -> Unpaired | None:
    """The send or receive without its other end that closes a ring; None where there is a ring without it too."""
    inside = set(nodes)
    without: dict[Node, tuple[Node, ...]] = {}
    found: list[Unpaired] = []
    for node in nodes:
        ends: list[int] = []
        if isinstance(node, Unit) and node.rank is not None:
            ends = [rank for rank, hold in graph.standings[node].holds.items() if hold in _UNPAIRED]
            if ends:
                found.append(Unpaired(node, tuple(sorted({node.rank, *ends}))))
        without[node] = tuple(n for n in graph.edges[node] if n in inside and n not in ends)
    return None if any(len(sink.nodes) > 1 for sink in sinks_of(without)) else min(found, default=None)


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
