"""A small sample of the simulator's faults; `tests/bench/simulated_faults.py` runs them by the hundred."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oncall.flight_recorder import Analysis, Kind, Pace, analyse, as_json, compare, load_paths, reduce

JOB = ("--tp=2", "--pp=2", "--dp=4", "--ep=2", "--buffer=400")


class Simulator:
    """Runs the simulator of the shared material into numbered folders."""

    def __init__(self, script: Path, folder: Path) -> None:
        self._script = script
        self._folder = folder
        self._count = 0

    def run(self, *args: str) -> tuple[Path, dict[str, Any]]:
        """Simulate one job; returns the folder of its dumps and what really happened."""
        self._count += 1
        out = self._folder / str(self._count)
        subprocess.run([sys.executable, str(self._script), str(out), *JOB, *args], check=True, capture_output=True)
        return out / "dumps", json.loads((out / "truth.json").read_text())


@pytest.fixture
def simulator(material: Path, tmp_path: Path) -> Simulator:
    return Simulator(material / "frsim.py", tmp_path)


def accused(analysis: Analysis) -> set[int]:
    return {rank for origin in analysis.origins for rank in origin.ranks}


FAULTS = [
    ("skip", "dp", ()),
    ("skip", "tp", ("--no-timing", "--no-frames")),
    ("skip", "pp", ("--wrap", "--no-timing")),
    ("skip", "world", ("--p2p=plain", "--no-timing")),
    ("extra", "ep", ("--only-active", "--no-timing")),
    ("extra", "world", ("--no-timing", "--wrap")),
    ("size", "dp", ("--naming=split", "--no-timing")),
    ("size", "pp", ("--no-timing",)),
    ("dtype", "tp", ("--coalesced-is-p2p", "--no-timing")),
    ("type", "world", ("--start-step=3",)),
    ("stuck", "ep", ("--only-active", "--no-frames", "--no-timing")),
    ("stuck", "pp", ("--tp-mode=ar",)),
    ("crash", "dp", ("--no-timing",)),
]


@pytest.mark.parametrize(("fault", "group", "settings"), FAULTS)
def test_the_origin_is_the_injected_fault(
    simulator: Simulator, fault: str, group: str, settings: tuple[str, ...]
) -> None:
    dumps, truth = simulator.run("--seed=3", f"--fault={fault}", f"--fault-group={group}", *settings)
    analysis = analyse(load_paths([dumps]))
    assert truth["hung"]
    assert accused(analysis) == set(truth["culprit_ranks"])
    assert truth["kind"] in {origin.kind for origin in analysis.origins}


def test_a_dead_node_is_a_stall_of_groups_that_cross_its_border(simulator: Simulator) -> None:
    dumps, truth = simulator.run("--fault=hardware", "--fault-group=dp", "--no-timing")
    analysis = analyse(load_paths([dumps]))
    assert {origin.kind for origin in analysis.origins} == {Kind.TRANSPORT_STALL}
    assert accused(analysis) == set()
    node = set(truth["culprit_ranks"])
    for origin in analysis.origins:
        assert node & set(origin.among)
        assert set(origin.among) - node


@pytest.mark.parametrize("settings", [(), ("--dump-at=0.6",), ("--dump-at=0.3", "--only-active"), ("--wrap",)])
def test_a_healthy_job_has_no_origin(simulator: Simulator, settings: tuple[str, ...]) -> None:
    dumps, _ = simulator.run("--fault=none", "--no-timing", *settings)
    analysis = analyse(load_paths([dumps]))
    assert analysis.origins == ()
    assert analysis.undecided == ()


@pytest.mark.parametrize("moment", ["0.2", "0.61"])
def test_stages_of_a_lone_pipeline_are_not_held_against_each_other(simulator: Simulator, moment: str) -> None:
    """They send unequally often; no other rank runs the same program, and what is complete is not listed."""
    alone = ("--tp=1", "--pp=4", "--dp=1", "--ep=1", "--p2p=plain", "--only-active")
    dumps, _ = simulator.run("--fault=none", "--no-timing", f"--dump-at={moment}", *alone)
    assert accused(analyse(load_paths([dumps]))) == set()


@pytest.mark.parametrize("seed", [0, 3, 5])
def test_the_slow_rank_is_named_and_an_even_job_names_nobody(simulator: Simulator, seed: int) -> None:
    early, _ = simulator.run(f"--seed={seed}", "--fault=slow", "--dump-at=0.3")
    late, truth = simulator.run(f"--seed={seed}", "--fault=slow")
    movement = compare(load_paths([late]), load_paths([early]))
    assert movement.pace is Pace.SLOW
    assert [slow.rank for slow in movement.slow] == truth["culprit_ranks"]
    early, _ = simulator.run(f"--seed={seed}", "--fault=none", "--dump-at=0.3")
    late, _ = simulator.run(f"--seed={seed}", "--fault=none")
    movement = compare(load_paths([late]), load_paths([early]))
    assert movement.pace is Pace.RUNNING


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("shape", [("--tp=1", "--pp=4", "--dp=2", "--ep=1"), ("--tp=1", "--pp=2", "--dp=8", "--ep=1")])
def test_a_slow_rank_of_a_pipeline_is_held_against_those_of_its_stage(
    simulator: Simulator, shape: tuple[str, ...], seed: int
) -> None:
    job = (*shape, f"--seed={seed}", "--buffer=900", "--fault=slow")
    early, _ = simulator.run(*job, "--dump-at=0.3")
    late, truth = simulator.run(*job)
    movement = compare(load_paths([late]), load_paths([early]))
    assert [slow.rank for slow in movement.slow] == truth["culprit_ranks"]


UNTOLD = [
    ("--no-timing", "--slow-factor=5"),
    ("--no-timing", "--slow-factor=5", "--depth=4"),
    ("--no-timing", "--slow-factor=5", "--depth=1"),
    ("--only-active",),
    ("--tp=1", "--pp=8", "--dp=1", "--ep=1"),
    ("--tp=1", "--pp=1", "--dp=8", "--ep=1", "--steps=6", "--dump-at=0.9"),
]


@pytest.mark.parametrize("fault", ["slow", "none"])
@pytest.mark.parametrize("settings", UNTOLD, ids=" ".join)
def test_where_it_cannot_be_told_nobody_is_named_and_nobody_cleared(
    simulator: Simulator, settings: tuple[str, ...], fault: str
) -> None:
    early, _ = simulator.run("--seed=1", f"--fault={fault}", *settings, "--dump-at=0.3")
    late, _ = simulator.run("--seed=1", f"--fault={fault}", *settings)
    movement = compare(load_paths([late]), load_paths([early]))
    assert (movement.pace, movement.slow) == (Pace.MOVING, ())
    assert movement.untold


def test_two_dumps_of_a_standstill_are_stuck(simulator: Simulator) -> None:
    dumps, _ = simulator.run("--fault=stuck", "--fault-group=tp", "--no-timing")
    movement = compare(load_paths([dumps]), load_paths([dumps]))
    assert movement.pace is Pace.STUCK
    assert len(movement.still) == 16


@pytest.mark.parametrize("settings", [(), ("--only-active", "--no-timing"), ("--wrap", "--no-frames")])
def test_the_answer_is_the_same_after_a_reduction_on_the_nodes(
    simulator: Simulator, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    dumps, _ = simulator.run("--fault=skip", "--fault-group=dp", *settings)
    files = sorted(dumps.iterdir())
    reduced = tmp_path / "reduced"
    reduced.mkdir()
    for node in range(2):
        script = [sys.executable, "-I", "-S", str(reduce.__file__), *map(str, files[node::2])]
        (reduced / f"node{node}.gz").write_bytes(subprocess.run(script, check=True, capture_output=True).stdout)
    direct, there = as_json(analyse(load_paths([dumps]))), as_json(analyse(load_paths([reduced])))
    assert direct["origins"]
    assert direct == there


DEEP = ("--tp=1", "--pp=4", "--dp=2", "--ep=1", "--microbatches=128")


@pytest.mark.parametrize("seed", [2, 4, 6])
def test_more_sends_in_a_step_than_are_kept_in_full_are_counted_all_the_same(simulator: Simulator, seed: int) -> None:
    dumps, truth = simulator.run(f"--seed={seed}", "--fault=skip", "--fault-group=pp", "--buffer=4000", *DEEP)
    analysis = analyse(load_paths([dumps]))
    assert accused(analysis) == set(truth["culprit_ranks"])


def test_sends_that_the_rings_do_not_let_count_are_left_undecided(simulator: Simulator) -> None:
    deep = ("--tp=1", "--pp=8", "--dp=2", "--ep=1", "--microbatches=128")
    dumps, truth = simulator.run("--seed=2", "--fault=skip", "--fault-group=pp", "--buffer=900", *deep)
    analysis = analyse(load_paths([dumps]), still=True)
    assert analysis.origins == ()
    (undecided,) = analysis.undecided
    assert set(truth["culprit_ranks"]) <= set(undecided.deciding)
    assert "TORCH_FR_BUFFER_SIZE" in undecided.reason
