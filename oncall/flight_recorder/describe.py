"""Tells an origin in full: where in the code, for whom the others wait, and what to look at next."""

from collections.abc import Mapping

from oncall.flight_recorder.advice import next_check, says
from oncall.flight_recorder.chains import longest_chain
from oncall.flight_recorder.frames import call_site
from oncall.flight_recorder.model import Grade, Kind, Op, Origin, Share
from oncall.flight_recorder.units import Unit
from oncall.flight_recorder.waits import Graph, Node


class Describer:
    """Describes the origins of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def describe(
        self,
        kind: Kind,
        ranks: tuple[int, ...],
        unit: Unit,
        steps: Mapping[Node, int],
        grade: Grade,
        *,
        mine: Op | None = None,
        among: tuple[int, ...] = (),
    ) -> Origin:
        """What a fault of `kind` at `unit` comes to: its place, its call sites, whom it explains and how it is reached.

        `mine` is the operation of the accused; `steps` is how far each waiting rank is from the origin.
        """
        graph = self._graph
        standing = graph.standings.get(unit)
        ops = standing.ops if standing else {}
        peer = next((op for rank, op in sorted(ops.items()) if rank not in ranks), None)
        group = graph.groups.known[unit.group]
        last = graph.views[ranks[0]].last if ranks and ranks[0] in graph.views else None
        op = peer or mine
        return Origin(
            kind=kind,
            ranks=ranks,
            among=among or ranks,
            group=group,
            seq=unit.seq,
            op=op.signature.op if op else None,
            found_op=mine.signature.op if mine else None,
            frame=call_site(mine),
            last_frame=call_site(last),
            victim_frame=call_site(peer),
            grade=grade,
            explains=Share(sum(rank in steps for rank in graph.waiting), len(graph.waiting)),
            chain=longest_chain(graph, steps),
            says=says(kind, ranks or among, group=group, seq=unit.seq, op=op, mine=mine),
            next_check=next_check(kind),
        )
