"""Recorded dumps with a known fault: the verdict must be the injected one, whatever is taken away or changed."""

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncall.flight_recorder import Analysis, Grade, Kind, analyse, load_blobs, load_paths

CASES = [
    "01_healthy_ddp",
    "02_skip_all_reduce",
    "03_size_mismatch",
    "04_type_mismatch",
    "05_dtype_mismatch",
    "06_extra_all_reduce",
    "07_loader_exhausted",
    "09_stuck_sleep",
    "09b_stuck_lock_fsdp",
    "13_dump_missing",
    "14_dump_truncated",
    "16_transport_stall",
    "16b_sigstop",
    "18_healthy_midrun",
]
LABELLED = {
    "gpu_error_1st": (Kind.GPU_STALLED, {12, 14}),
    "lock_gil_2nd": (Kind.STUCK_BEFORE_COLLECTIVE, {10, 15}),
}

Files = dict[int, bytes]


class Case:
    """One recorded case: its files by rank and what really happened."""

    def __init__(self, folder: Path) -> None:
        expected = json.loads((folder / "expected.json").read_text())
        verdict = expected["verdict"]
        self.kinds = {verdict["kind"], *expected["also_acceptable_kinds"]} - {"none"}
        self.seq = verdict["collective_seq_id"]
        self.frame = verdict["blamed_frame"]
        self.last_frame = verdict.get("last_frame_of_culprit")
        self.waiting_frame = verdict.get("waiting_frame")
        self.world = expected["world_size"]
        self.namable = expected["determinable_from_dumps"] == "full"
        self.guilty = set(verdict["culprit_ranks"])
        self.candidates = set(expected.get("best_honest_verdict", {}).get("candidate_ranks", ()))
        self.files = {int(p.name.split("_")[1]): p.read_bytes() for p in sorted((folder / "dumps").iterdir())}

    def analyse(self, files: Files) -> Analysis:
        """Analyse these files of the case."""
        return analyse(load_blobs((f"rank_{rank}", data) for rank, data in files.items()), world_size=self.world)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, material: Path) -> Case:
    return Case(material / "real" / request.param)


def assert_right(case: Case, analysis: Analysis) -> None:
    if not case.kinds:
        assert analysis.origins == ()
        assert analysis.undecided == ()
        return
    (origin,) = analysis.origins
    assert origin.kind in case.kinds
    assert origin.seq == case.seq
    assert origin.group is not None
    assert origin.group.ranks == tuple(range(case.world))
    assert origin.explains.ranks == origin.explains.waiting
    if case.namable:
        assert set(origin.ranks) == case.guilty
    else:
        assert origin.ranks == ()
        assert set(origin.among) == case.candidates
        assert origin.grade is not Grade.SURE


def test_the_verdict_is_the_injected_fault(case: Case) -> None:
    analysis = case.analyse(case.files)
    assert_right(case, analysis)
    for origin in analysis.origins:
        assert (origin.frame and origin.frame.name) == case.frame
        if case.last_frame:
            assert origin.last_frame is not None
            assert origin.last_frame.name == case.last_frame
        if case.waiting_frame:
            assert origin.victim_frame is not None
            assert origin.victim_frame.name == case.waiting_frame


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_files_does_not_matter(case: Case, seed: int) -> None:
    order = list(case.files)
    random.Random(seed).shuffle(order)
    assert_right(case, case.analyse({rank: case.files[rank] for rank in order}))


def _changed(files: Files, change: Callable[[dict[str, Any]], None]) -> Files:
    changed = {}
    for rank, data in files.items():
        try:
            content = pickle.loads(data)
        except (EOFError, pickle.UnpicklingError):
            changed[rank] = data
            continue
        change(content)
        changed[rank] = pickle.dumps(content, protocol=2)
    return changed


def test_it_does_not_rest_on_states(case: Case) -> None:
    def start(content: dict[str, Any]) -> None:
        for row in content["entries"]:
            row["state"] = "started"

    assert_right(case, case.analyse(_changed(case.files, start)))


def test_it_does_not_rest_on_pg_status(case: Case) -> None:
    assert_right(case, case.analyse(_changed(case.files, lambda content: content.pop("pg_status"))))


def test_without_the_culprits_dumps_nobody_innocent_is_named(case: Case) -> None:
    analysis = case.analyse({rank: data for rank, data in case.files.items() if rank not in case.guilty})
    assert_no_innocent(case.guilty, analysis, bool(case.kinds))


@pytest.mark.parametrize("seed", range(6))
def test_without_half_of_the_victims_it_is_right_or_undecided(case: Case, seed: int) -> None:
    victims = [rank for rank in case.files if rank not in case.guilty]
    gone = set(random.Random(seed).sample(victims, len(victims) // 2))
    analysis = case.analyse({rank: data for rank, data in case.files.items() if rank not in gone})
    if not case.namable:
        assert all(origin.ranks == () for origin in analysis.origins)
        return
    assert_no_innocent(case.guilty, analysis, bool(case.kinds))


def assert_no_innocent(guilty: set[int], analysis: Analysis, hung: bool) -> None:
    accused = {rank for origin in analysis.origins for rank in origin.ranks}
    assert accused <= guilty
    if hung and accused != guilty:
        deciding = {rank for row in analysis.undecided for rank in row.deciding}
        among = {rank for origin in analysis.origins for rank in origin.among}
        absent = {row.rank for row in analysis.coverage.absent}
        assert deciding <= absent
        assert guilty - accused <= deciding | among or deciding


@pytest.mark.parametrize("name", LABELLED)
class TestLabelledByThirdParty:
    """16 ranks of a Megatron job, active operations only, no stacks; two faulty ranks each."""

    def files(self, material: Path, name: str) -> Files:
        folder = material / "nvrx" / name
        if not folder.is_dir():
            pytest.skip("the labelled third-party dumps are not on this machine")
        return {int(p.name.rsplit("_", 1)[1]): p.read_bytes() for p in folder.glob("_dump_*")}

    def analyse(self, files: Files) -> Analysis:
        return analyse(load_blobs((f"_dump_{rank}", data) for rank, data in files.items()), world_size=16)

    def test_names_both_faulty_ranks_and_no_victim(self, material: Path, name: str) -> None:
        kind, guilty = LABELLED[name]
        analysis = self.analyse(self.files(material, name))
        assert {rank for origin in analysis.origins for rank in origin.ranks} == guilty
        assert {origin.kind for origin in analysis.origins} == {kind}
        assert analysis.undecided == ()

    def test_from_the_folder_with_the_label_beside_the_dumps(self, material: Path, name: str) -> None:
        self.files(material, name)
        analysis = analyse(load_paths([material / "nvrx" / name]))
        assert {rank for origin in analysis.origins for rank in origin.ranks} == LABELLED[name][1]
        assert [r.source for r in analysis.coverage.refused] == ["fault_injection.log"]

    @pytest.mark.parametrize("seed", range(3))
    def test_in_any_order(self, material: Path, name: str, seed: int) -> None:
        files = self.files(material, name)
        order = list(files)
        random.Random(seed).shuffle(order)
        analysis = self.analyse({rank: files[rank] for rank in order})
        assert {rank for origin in analysis.origins for rank in origin.ranks} == LABELLED[name][1]

    @pytest.mark.parametrize("change", ["states", "pg_status"])
    def test_without_states_or_counters_no_victim_is_named(self, material: Path, name: str, change: str) -> None:
        def start(content: dict[str, Any]) -> None:
            for row in content["entries"]:
                row["state"] = "started"

        def forget(content: dict[str, Any]) -> None:
            content.pop("pg_status")

        analysis = self.analyse(_changed(self.files(material, name), start if change == "states" else forget))
        guilty = LABELLED[name][1]
        assert {rank for origin in analysis.origins for rank in origin.ranks} <= guilty
        named = {rank for origin in analysis.origins for rank in origin.ranks}
        assert named == guilty or analysis.undecided

    def test_without_the_culprits_dumps(self, material: Path, name: str) -> None:
        guilty = LABELLED[name][1]
        files = {rank: data for rank, data in self.files(material, name).items() if rank not in guilty}
        analysis = self.analyse(files)
        assert analysis.origins == ()
        assert {rank for row in analysis.undecided for rank in row.deciding} == guilty

    @pytest.mark.parametrize("seed", range(40))
    def test_without_half_of_the_victims(self, material: Path, name: str, seed: int) -> None:
        guilty = LABELLED[name][1]
        files = self.files(material, name)
        gone = set(random.Random(seed).sample(sorted(set(files) - guilty), 7))
        analysis = self.analyse({rank: data for rank, data in files.items() if rank not in gone})
        assert_no_innocent(guilty, analysis, hung=True)
