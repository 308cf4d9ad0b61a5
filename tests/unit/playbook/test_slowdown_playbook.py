"""Where no series tells, the tree of a slowdown asks drivers, ports and hosts themselves.

That a few ranks, or all, are slow is the operator's word here; what series tell of it is decided elsewhere, on series.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..readings.evidence import Part, Scene, processes
from .test_hang_branches import MEMORY, fabric, host
from .test_hardware_playbook import SOUND, query
from .walking import concludes

BLOCKED = "4711\tpython3\tnfs_wait\n"


def running(scene: Scene) -> Scene:
    return scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4, 8))})


def gpus(scene: Scene, *odd: Part) -> Scene:
    return scene.say("gpu_health", {"node001": SOUND, "node002": list(odd)})


def waits_for_storage(scene: Scene) -> Scene:
    parts: list[Part] = []
    for sample in ("1", "2"):
        pressure = "io some avg10=97.00 avg60=1.0 total=1\nio full avg10=97.00 avg60=1.0 total=1\n"
        parts += [("memory", {"sample": sample}, MEMORY.format(available=500_000))]
        parts += [("pressure", {"sample": sample}, pressure), ("blocked", {"sample": sample}, BLOCKED)]
    return scene.say("host", {"node001": [], "node002": parts})


OF_FEW: dict[str, tuple[str, Callable[[Scene], Scene]]] = {
    "hot": ("throttled-straggler", lambda s: gpus(s, *query(1, hot=True), *query(2, hot=True))),
    "memory errors": ("faulty-straggler", lambda s: gpus(s, *query(1, ecc=2), *query(2, ecc=2))),
    "a driver that hangs": ("faulty-straggler", lambda s: gpus(s, ("exit", {"sample": "1", "code": "124"}, ""))),
    "NVLink errors": ("link-straggler", lambda s: gpus(s, *query(1, replays=10), *query(2, replays=12))),
    "rows to be remapped slow nothing": (
        "link-straggler",
        lambda s: fabric(gpus(s, *query(1, pending="Yes"), *query(2, pending="Yes")), errors=9),
    ),
    "a port that errs": ("link-straggler", lambda s: fabric(s, errors=9)),
    "a slow port": ("link-straggler", lambda s: fabric(s, rate=100)),
    "short of memory": ("host-memory", lambda s: host(s, available=900)),
    "storage that does not answer": ("host-storage", waits_for_storage),
    "a task in the kernel alone": ("unexplained-straggler", lambda s: host(s, blocked=BLOCKED)),
    "nothing tells": ("unexplained-straggler", lambda s: s),
}


@pytest.mark.parametrize("what", OF_FEW)
def test_a_few_ranks_are_slow(what: str, tmp_path: Path) -> None:
    conclusion, build = OF_FEW[what]
    told = {"slower": "slower", "few-or-all": "few", "software": "unknown"}
    assert concludes(build(running(Scene(tmp_path))), "slowdown", **told).conclusion_id == conclusion


@pytest.mark.parametrize(
    ("conclusion", "build"),
    [
        ("host-memory", lambda s: host(s, available=900)),
        ("host-storage", waits_for_storage),
        ("throttled-straggler", lambda s: gpus(s, *query(1, hot=True), *query(2, hot=True))),
        ("link-straggler", lambda s: fabric(s, errors=9)),
        ("not-enough", lambda s: s),
    ],
)
def test_everyone_is_slow(conclusion: str, build: Callable[[Scene], Scene], tmp_path: Path) -> None:
    told = {"slower": "slower", "few-or-all": "all"}
    assert concludes(build(running(Scene(tmp_path))), "slowdown", **told).conclusion_id == conclusion
