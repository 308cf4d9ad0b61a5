"""The way from a waiting rank to what everybody waits for, hop by hop."""

from collections.abc import Mapping

from oncall.flight_recorder.frames import call_site
from oncall.flight_recorder.model import Hop
from oncall.flight_recorder.units import Unit
from oncall.flight_recorder.waits import Graph, Node, Standing

_MAX_HOPS = 32


def longest_chain(graph: Graph, steps: Mapping[Node, int]) -> tuple[Hop, ...]:
    """The longest of the shortest ways to an end; `steps` is how far each rank and operation is from it.

    An end that is a ring is gone round once.
    """
    start = max((rank for rank in graph.waiting if rank in steps), key=lambda r: (steps[r], -r), default=None)
    hops: list[Hop] = []
    node: Node | None = start
    passed: set[Node] = set()
    while node is not None and not isinstance(node, Unit) and len(hops) < _MAX_HOPS and node not in passed:
        passed.add(node)
        front = graph.views[node].front if node in graph.views else None
        # At a distance of 0 both are of a ring; where the end is a rank or an operation alone, the other is not of it.
        if front is None or front not in graph.standings or (steps[node] == 0 and steps.get(front) != 0):
            break
        standing = graph.standings[front]
        nearest = min((rank for rank in standing.holds if rank in steps), key=lambda r: steps[r], default=None)
        hops.append(_hop(graph, node, front, standing, nearest))
        node = nearest
    return tuple(hops)


def _hop(graph: Graph, rank: int, unit: Unit, standing: Standing, nearest: int | None) -> Hop:
    op = standing.ops.get(rank)
    nobody = "its members disagree on what it is" if standing.disagrees else "all joined it"
    why = nobody if nearest is None else str(standing.holds[nearest])
    held_by = () if nearest is None else (nearest,)
    return Hop(
        rank, graph.groups.known[unit.group], unit.seq, op.signature.op if op else "?", held_by, why, call_site(op)
    )
