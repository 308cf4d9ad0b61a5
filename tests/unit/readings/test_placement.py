"""Whose GPU is it? By what CUDA lets each rank see; what cannot be told accuses nobody."""

from pathlib import Path

import pytest

from oncall.readings.finding import Role
from oncall.readings.hardware import hardware
from oncall.run.ranks import Place, rank_map

from .evidence import UPTIME_S, Part, Scene, process, processes

UUIDS = [f"GPU-{n}aaa{n}aaa-0000-0000-0000-00000000000{n}" for n in range(4)]
TABLE = "".join(f"{n}, {UUIDS[n]}, 00000000:{n + 1}0:00.0\n" for n in range(4))
MIG = "MIG-41b35014-745c-5443-8c0d-{:012}"


def sees(rank: int, listed: str | None) -> list[Part]:
    """A rank's process, with its CUDA_VISIBLE_DEVICES."""
    line = "" if listed is None else f"env CUDA_VISIBLE_DEVICES={listed}\n"
    return [(name, told, line + str(text) if name == "process" else text) for name, told, text in process(rank)]


def gpus(folder: Path, *listed: str | None) -> list[int | None]:
    """The GPU index of ranks 4 to 7 of node002, from what each of them sees."""
    scene = Scene(folder)
    own = listed if len(listed) == 4 else listed * 4
    scene.say("gpus", {"node001": [], "node002": [("gpus", {"form": "nvidia-smi"}, TABLE)]})
    seen = [part for rank, each in zip(range(4, 8), own, strict=True) for part in sees(rank, each)]
    scene.say("processes", {"node001": processes(range(4)), "node002": seen})
    return [scene.case.ranks.places[rank].gpu_index for rank in range(4, 8)]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (None, [0, 1, 2, 3]),
        ("0,1,2,3", [0, 1, 2, 3]),
        ("3,2,1,0", [3, 2, 1, 0]),
        (",".join(reversed(UUIDS)), [3, 2, 1, 0]),
        (",".join(uuid[:8] for uuid in reversed(UUIDS)), [3, 2, 1, 0]),
        (",".join(uuid.upper() for uuid in UUIDS), [0, 1, 2, 3]),
        (f"{UUIDS[2]}, {UUIDS[0]},{UUIDS[1]},{UUIDS[3]}", [2, 0, 1, 3]),
        ("GPU-,GPU-", [None] * 4),
        ("0,1,-1,2", [0, 1, None, None]),
        (f"{UUIDS[1]},GPU-ffff,{UUIDS[0]}", [1, 1, 1, 1]),
        ("3,2", [3, 2, None, None]),
        ("", [None] * 4),
        ("-1", [None] * 4),
        ("NoDevFiles", [None] * 4),
        (",".join(MIG.format(n) for n in range(4)), [None] * 4),
        (f"{MIG.format(0)},{UUIDS[3]},{UUIDS[2]},{UUIDS[1]}", [None, 3, 2, 1]),
        (",".join(f"MIG-{UUIDS[n // 2]}/{n % 2 + 1}/0" for n in range(4)), [0, 0, 1, 1]),
    ],
)
def test_a_list_that_all_ranks_share(listed: str | None, expected: list[int | None], tmp_path: Path) -> None:
    assert gpus(tmp_path, listed) == expected


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (("3", "2", "1", "0"), [3, 2, 1, 0]),
        (tuple(UUIDS), [0, 1, 2, 3]),
        (("0", "0", "0", "0"), [None] * 4),
        (("2", "0", "0", "1"), [2, None, None, 1]),
        ((UUIDS[1], UUIDS[1], UUIDS[3], UUIDS[3]), [1, 1, 3, 3]),
        ((UUIDS[3], MIG.format(7), "", "GPU-ff"), [3, None, None, None]),
    ],
)
def test_a_list_for_each_rank(listed: tuple[str, ...], expected: list[int | None], tmp_path: Path) -> None:
    assert gpus(tmp_path, *listed) == expected


def lost(scene: Scene, listed: str) -> list[tuple[int, ...]]:
    """Whom a lost GPU of index 0 accuses, where node002's ranks see this."""
    line = f"[{UPTIME_S - 300:12.6f}] NVRM: Xid (PCI:0000:10:00): 79, GPU has fallen off the bus.\n"
    scene.say("gpus", {"node001": [], "node002": [("gpus", {"form": "nvidia-smi"}, TABLE)]})
    seen = [part for rank in range(4, 8) for part in sees(rank, listed)]
    scene.say("processes", {"node001": processes(range(4)), "node002": seen})
    scene.say("kernel", {"node001": [("kernel", {}, "")], "node002": [("kernel", {}, line)]})
    return [finding.ranks for finding in hardware(scene.case).findings if finding.role is Role.ORIGIN]


@pytest.mark.parametrize(("listed", "accused"), [(",".join(reversed(UUIDS)), (7,)), (MIG.format(1), ())])
def test_a_lost_gpu_accuses_the_rank_that_uses_it_or_nobody(
    listed: str, accused: tuple[int, ...], tmp_path: Path
) -> None:
    assert lost(Scene(tmp_path), listed) == [accused]


def test_a_file_without_gpus_is_filled_in_by_what_the_ranks_see(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    places = [Place(rank=rank, host=f"node{rank // 4 + 1:03}", local_rank=rank % 4) for rank in range(8)]
    scene.case.given_ranks = rank_map(places, world_size=8, source="ranks.json")
    assert lost(scene, ",".join(reversed(UUIDS))) == [(7,)]
    assert scene.case.ranks.source == "ranks.json"


def test_a_file_that_names_uuids_is_believed(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    places = [
        Place(rank=rank, host=f"node{rank // 4 + 1:03}", local_rank=rank % 4, gpu_uuid=UUIDS[3 - rank % 4])
        for rank in range(8)
    ]
    scene.case.given_ranks = rank_map(places, world_size=8, source="ranks.json")
    assert lost(scene, "0,1,2,3") == [(7,)]
