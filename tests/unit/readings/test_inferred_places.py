"""Where do ranks run that nobody saw? Only where launchers cannot have put them elsewhere."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from oncall.readings.alive import alive

from .evidence import Part, Scene, process


def on_node(ranks: Iterable[int], *, world: int, lost: tuple[int, ...] = ()) -> list[Part]:
    """The processes of a node: its ranks have the local ranks 0, 1, … in this order; some are gone."""
    own = list(ranks)
    parts = []
    for local, rank in enumerate(own):
        told, again = process(rank, world=world)
        text = str(told[2]).replace(f"LOCAL_RANK={rank % 4}", f"LOCAL_RANK={local}")
        text = text.replace("LOCAL_WORLD_SIZE=4", f"LOCAL_WORLD_SIZE={len(own)}")
        parts += [] if rank in lost else [(told[0], told[1], text), again]
    return parts


def hosts(scene: Scene) -> dict[int, str]:
    return {rank: place.host for rank, place in sorted(scene.case.ranks.places.items())}


@pytest.mark.parametrize("silent", ["node001", "node002", "node003"])
def test_nodes_may_have_different_numbers_of_gpus(silent: str, tmp_path: Path) -> None:
    ranks = {"node001": range(4), "node002": range(4, 6), "node003": range(6, 14)}
    seen = {host: on_node(own, world=14) for host, own in ranks.items()}
    scene = Scene(tmp_path, "node[001-003]").say("processes", {**seen, silent: "timed out"})
    assert hosts(scene) == {rank: host for host, own in ranks.items() for rank in own}


def test_a_lost_rank_of_a_smaller_node_is_placed(tmp_path: Path) -> None:
    seen = {"node001": on_node(range(4), world=6), "node002": on_node((4, 5), world=6, lost=(4,))}
    judged = alive(Scene(tmp_path).say("processes", seen).case)
    assert [(f.ranks, f.hosts) for f in judged.findings] == [((4,), ("node002",))]


def test_ranks_that_go_round_the_nodes_are_not_taken_for_a_run(tmp_path: Path) -> None:
    """As `srun --distribution=cyclic` does: of a node that was not seen nothing is claimed."""
    seen = {"node001": on_node((0, 3, 6, 9), world=12), "node002": "timed out", "node003": "timed out"}
    scene = Scene(tmp_path, "node[001-003]").say("processes", seen)
    assert hosts(scene) == dict.fromkeys((0, 3, 6, 9), "node001")
    assert alive(scene.case).verdict == "unknown"


def test_a_rank_seen_elsewhere_contradicts_a_run(tmp_path: Path) -> None:
    """Of the node with the ranks 0 and 2 only the first is left: rank 1, which would follow it, is on the other."""
    first, second = on_node((0, 2), world=4, lost=(2,)), on_node((1, 3), world=4)
    scene = Scene(tmp_path).say("processes", {"node001": first, "node002": second})
    assert hosts(scene) == {0: "node001", 1: "node002", 3: "node002"}
    assert alive(scene.case).verdict != "gone"
