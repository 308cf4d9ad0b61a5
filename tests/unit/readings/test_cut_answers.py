"""An answer that its index calls whole, and that lost its end, clears nobody and accuses nobody of half a number."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle
from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Judgement
from oncall.readings.gpu_state import gpu_state
from oncall.readings.host_pressure import host_pressure
from oncall.readings.ports import ports
from oncall.readings.ras import ras
from oncall.readings.stack_set import stack_set
from oncall.rehearse.incidents import incidents
from oncall.report.triage import replay

from .evidence import Part, Scene

CUT = "its answer was cut short"
PORT = "counter symbol_error 0\nrate 400 Gb/sec (4X NDR)\nstate 4: ACTIVE\n"
MEMORY = "oom_kill 0\nMemTotal: 1000000 kB\nMemAvailable: 500000 kB\n"
GPU = (
    "<nvidia_smi_log><gpu id='00000000:4F:00.0'><uuid>GPU-aa</uuid><clocks_event_reasons>"
    "<clocks_event_reason_hw_slowdown>{slow}</clocks_event_reason_hw_slowdown></clocks_event_reasons></gpu>"
    "</nvidia_smi_log>"
)
LAUNCHED = json.dumps({"nccl_version": "2.28.7", "communicators": []})


def twice(name: str, text: str, **told: str) -> list[Part]:
    return [(name, {"sample": sample, **told}, text) for sample in ("1", "2")]


SOUND: dict[str, tuple[Callable[[Case], Judgement], str, list[Part]]] = {
    "fabric": (ports, "fine", twice("port", PORT, device="mlx5_0", port="1")),
    "host": (host_pressure, "fine", twice("memory", MEMORY)),
    "gpu_health": (gpu_state, "fine", twice("query", GPU.format(slow="Not Active"))),
}


def cut(scene: Scene, probe: str, host: str, at: bytes, *, keep: int) -> Case:
    """A node's answer up to `keep` bytes after the last occurrence of some words; its index stays as it is."""
    path = scene.bundle.path / f"evidence/{probe}/1/{host}.out"
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex(at) + keep])
    case, evidence = scene.case, Bundle.open(scene.bundle.path).evidence(probe)
    assert evidence is not None
    case.add(evidence)
    return case


@pytest.mark.parametrize("probe", SOUND)
def test_what_lost_its_end_clears_nobody(probe: str, tmp_path: Path) -> None:
    judge, fine, parts = SOUND[probe]
    scene = Scene(tmp_path).say(probe, {"node001": parts, "node002": parts})
    assert judge(scene.case).verdict == fine
    judged = judge(cut(scene, probe, "node002", b"\tend", keep=2))
    assert (judged.verdict, "node002" in judged.reason) == ("unknown", True)


@pytest.mark.parametrize(
    ("probe", "at"),
    [("fabric", b"ACTIVE"), ("fabric", b"400 Gb"), ("host", b"500000")],
    ids=["state", "rate", "memory"],
)
def test_half_a_number_accuses_nobody(probe: str, at: bytes, tmp_path: Path) -> None:
    judge, _, parts = SOUND[probe]
    scene = Scene(tmp_path).say(probe, {"node001": parts, "node002": parts})
    assert judge(cut(scene, probe, "node002", at, keep=2)).verdict == "unknown"


def test_a_slowdown_seen_at_the_one_look_that_came_is_of_a_moment(tmp_path: Path) -> None:
    _, _, parts = SOUND["gpu_health"]
    held = twice("query", GPU.format(slow="Active"))
    scene = Scene(tmp_path).say("gpu_health", {"node001": parts, "node002": held})
    assert gpu_state(scene.case).verdict == "held-down"
    assert gpu_state(cut(scene, "gpu_health", "node002", b"<nvidia_smi_log>", keep=9)).verdict == "unknown"


def test_the_second_look_of_nccl_does_not_count_where_it_broke_off(tmp_path: Path) -> None:
    looks = twice("status", LAUNCHED, form="json")
    scene = Scene(tmp_path).say("nccl_ras", {"node001": looks, "node002": []})
    assert ras(scene.case).verdict == "all-launched"
    assert ras(cut(scene, "nccl_ras", "node001", b"2.28.7", keep=9)).verdict == "unknown"


def test_half_a_stack_does_not_tell_where_a_rank_stands(tmp_path: Path) -> None:
    stack: Part = ("stack", {"rank": "5", "pid": "1005"}, json.dumps([{"pid": 1005, "thread_id": 1, "frames": []}]))
    scene = Scene(tmp_path).say("stacks", {"node001": [], "node002": [stack]})
    case = cut(scene, "stacks", "node002", b"\tend", keep=2)
    seen = case.view("stacks", stack_set)
    assert seen is not None
    assert case.coverage("stacks").missing == {"node002": CUT}


@pytest.mark.parametrize("name", ["hang-by-code", "slowdown-by-throttling"])
def test_every_probe_tells_which_answers_were_cut(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(incidents()[name].bundle.path, copy)
    for path in (copy / "evidence").rglob("*.out"):
        path.write_bytes(path.read_bytes()[:-30])
    report = asyncio.run(replay(Bundle.open(copy), lambda _: None))
    assert {why for each in report.coverage.values() for why in each.missing.values()} == {CUT}
    assert all(not each.answered for each in report.coverage.values())


@pytest.mark.parametrize("keep", [-3, 0], ids=["in its series", "before their ages"])
def test_the_series_of_a_query_that_was_cut_are_not_known(keep: int, tmp_path: Path) -> None:
    """The clock of the throttled GPU is not known for sure to be of now; why it is held down still is."""
    copy = tmp_path / "bundle"
    shutil.copytree(incidents()["slowdown-by-throttling"].bundle.path, copy)
    path = copy / "evidence/metrics/1/sm_clock.out"
    raw = path.read_bytes()
    path.write_bytes(raw[: raw.rindex(b"\n", 0, raw.index(b"\tnewest\t")) + keep])
    verdict = asyncio.run(replay(Bundle.open(copy), lambda _: None)).verdict
    assert (verdict.ranks, verdict.grade) == ((5,), Grade.LIKELY)
    assert "SM clock" not in verdict.cause
