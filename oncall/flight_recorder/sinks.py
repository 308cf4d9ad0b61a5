"""Where the chains of waiting end: the sinks of the condensed graph, and how many ranks reach each."""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass

from oncall.flight_recorder.waits import Node

Edges = Mapping[Node, tuple[Node, ...]]


@dataclass(frozen=True, slots=True)
class Sink:
    """One end of the chains: a single node, or the nodes of a ring; a ring that is not `final` has a way out."""

    nodes: tuple[Node, ...]
    final: bool = True


def sinks_of(edges: Edges) -> list[Sink]:
    """Strongly connected parts that are rings or have no edge to another part (Tarjan's algorithm, iterative)."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    part_of: dict[Node, int] = {}
    parts: list[list[Node]] = []
    stack: list[Node] = []
    for root in edges:
        if root in index:
            continue
        walk = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while walk:
            node, successors = walk[-1]
            for successor in successors:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    walk.append((successor, iter(edges[successor])))
                    break
                if successor not in part_of:
                    low[node] = min(low[node], index[successor])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[node])
                if low[node] == index[node]:
                    parts.append(_close(node, stack, part_of, len(parts)))
    open_parts = {part_of[n] for n, successors in edges.items() for s in successors if part_of[s] != part_of[n]}
    return [
        Sink(tuple(part), number not in open_parts)
        for number, part in enumerate(parts)
        if len(part) > 1 or number not in open_parts
    ]


def _close(node: Node, stack: list[Node], part_of: dict[Node, int], number: int) -> list[Node]:
    part = []
    while True:
        member = stack.pop()
        part_of[member] = number
        part.append(member)
        if member == node:
            return part


def steps_to(sink: Sink, edges: Edges) -> dict[Node, int]:
    """Hops from every node that reaches the sink, by walking the edges backwards."""
    backwards: dict[Node, list[Node]] = defaultdict(list)
    for node, successors in edges.items():
        for successor in successors:
            backwards[successor].append(node)
    distance: dict[Node, int] = dict.fromkeys(sink.nodes, 0)
    todo = deque(sink.nodes)
    while todo:
        node = todo.popleft()
        for previous in backwards[node]:
            if previous not in distance:
                distance[previous] = distance[node] + 1
                todo.append(previous)
    return distance
