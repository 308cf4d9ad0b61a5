"""Branches of the hang tree that need links, NCCL's own account, drivers, hosts, or the program's own errors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..probes.fake_ras import Look
from ..readings.evidence import UPTIME_S, Part, Scene, processes
from .walking import concludes, kernel, rank_log, stack, step_line, xid

WAITS = (("all_reduce", "torch/distributed/distributed_c10d.py", 2800), ("step", "train.py", 40))
LOCKS = (("wait", "threading.py", 327), ("get_shard", "train.py", 55))
OOM = (
    "[{uptime:12.6f}] Out of memory: Killed process 1005 (pt_main_thread) total-vm:1kB, anon-rss:98000000kB,"
    " file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n"
)
EVEN = dict.fromkeys(range(8), 26)
PORT = "state {state}\nrate {rate} Gb/sec (4X NDR)\ncounter symbol_error {errors}\n"
GPU = (
    "<nvidia_smi_log><gpu id='00000000:4F:00.0'><uuid>GPU-aa</uuid><ecc_errors><volatile>"
    "<dram_uncorrectable>{ecc}</dram_uncorrectable></volatile></ecc_errors></gpu></nvidia_smi_log>"
)
MEMORY = "MemTotal: 1000000 kB\nMemAvailable: {available} kB\npswpin 0\npswpout 0\noom_kill 0\n"


def stopped(scene: Scene, text: str = "", *, lost: int | None = None, holder: int | None = None) -> Scene:
    """Every rank waits for the others but for one that is gone, or that holds a lock instead; no dumps."""
    here = [rank for rank in range(8) if rank != lost]
    for probe, parts in (
        ("processes", lambda rank: processes(range(rank, rank + 1))),
        ("stacks", lambda rank: [stack(rank, *(LOCKS if rank == holder else WAITS))]),
    ):
        nodes = {"node001": [r for r in here if r < 4], "node002": [r for r in here if r >= 4]}
        scene.say(probe, {host: [part for rank in ranks for part in parts(rank)] for host, ranks in nodes.items()})
    scene.say("logs", {"node001": [rank_log(step_line(7, "2026-03-03 02:50:00"))], "node002": []})
    scene.say("dumps", {"node001": [], "node002": []})
    return scene.say("kernel", {"node001": kernel(), "node002": kernel(text)})


def ras(scene: Scene, *looks: Look) -> Scene:
    parts: list[Part] = [("status", {"sample": str(n), "form": "json"}, look.json()) for n, look in enumerate(looks, 1)]
    return scene.say("nccl_ras", {"node001": parts, "node002": []})


def fabric(scene: Scene, *, state: str = "4: ACTIVE", rate: int = 400, errors: int = 0) -> Scene:
    def port(sample: int, **odd: object) -> Part:
        values = {"state": "4: ACTIVE", "rate": 400, "errors": 0, **odd}
        return "port", {"sample": str(sample), "device": "mlx5_0", "port": "1"}, PORT.format(**values)

    sound = [port(1), port(2)]
    odd = [port(1, state=state, rate=rate), port(2, state=state, rate=rate, errors=errors)]
    return scene.say("fabric", {"node001": sound, "node002": odd})


def driver(scene: Scene, *, ecc: int) -> Scene:
    sound: list[Part] = [("query", {"sample": "1"}, GPU.format(ecc=0)), ("exit", {"sample": "1", "code": "0"}, "")]
    odd: list[Part] = [("query", {"sample": "1"}, GPU.format(ecc=ecc)), *sound[1:]]
    return scene.say("gpu_health", {"node001": sound, "node002": odd})


def host(scene: Scene, *, available: int = 500_000, blocked: str = "") -> Scene:
    parts: list[Part] = []
    for sample in ("1", "2"):
        parts.append(("memory", {"sample": sample}, MEMORY.format(available=available)))
        parts.append(("blocked", {"sample": sample}, blocked))
    return scene.say("host", {"node001": [], "node002": parts})


CASES: dict[str, tuple[str, Callable[[Scene], Scene]]] = {
    "killed for memory": ("out-of-memory", lambda s: stopped(s, OOM.format(uptime=UPTIME_S - 300), lost=5)),
    "its own GPU error": ("program-error", lambda s: stopped(s, xid(31, text="MMU Fault"), lost=5)),
    "dead to NCCL": ("lost-to-nccl", lambda s: ras(stopped(s), *[Look(dict.fromkeys(range(7), 26), dead=[7])] * 2)),
    "an error in NCCL": ("nccl-error", lambda s: ras(stopped(s), *[Look(EVEN, failed=[4])] * 2)),
    "one behind": ("behind", lambda s: ras(stopped(s), *[Look({**EVEN, 5: 25})] * 2)),
    "still launching": ("still-moving", lambda s: ras(stopped(s), Look(EVEN), Look(dict.fromkeys(range(8), 30)))),
    "all launched": ("all-wait", lambda s: fabric(ras(stopped(s), *[Look(EVEN)] * 2))),
    "a port down": ("link-down", lambda s: fabric(ras(stopped(s), *[Look(EVEN)] * 2), state="1: DOWN")),
    "a port slow": ("link-down", lambda s: fabric(stopped(s), rate=100)),
    "a port that errs": ("link-errors", lambda s: fabric(stopped(s), errors=9)),
    "nobody tells": ("all-wait", stopped),
    "a host short of memory": ("host-memory", lambda s: host(stopped(s, holder=5), available=900)),
    "tasks in the kernel": ("host-blocked", lambda s: host(stopped(s, holder=5), blocked="4711\tpython3\tnfs_wait\n")),
    "a host at ease": ("stuck-on-host", lambda s: host(stopped(s, holder=5))),
}


@pytest.mark.parametrize("what", CASES)
def test_each_branch_ends_where_it_should(what: str, tmp_path: Path) -> None:
    conclusion, build = CASES[what]
    assert concludes(build(Scene(tmp_path)), "hang").conclusion_id == conclusion


@pytest.mark.parametrize(
    ("conclusion", "build"),
    [
        ("link-errors", lambda s: fabric(stopped(s), errors=9)),
        ("behind", lambda s: ras(fabric(stopped(s)), *[Look({**EVEN, 5: 25})] * 2)),
        ("network", lambda s: ras(fabric(stopped(s)), *[Look(EVEN)] * 2)),
        ("network", stopped),
    ],
)
def test_where_everyone_joined_links_and_nccl_are_asked(
    conclusion: str, build: Callable[[Scene], Scene], tmp_path: Path
) -> None:
    walked = concludes(build(Scene(tmp_path)), "hang", watchdog="timed-out", collective="all-joined")
    assert walked.conclusion_id == conclusion


@pytest.mark.parametrize(("ecc", "conclusion"), [(2, "gpu-degraded"), (0, "gpu-lags")])
def test_where_a_gpu_lags_its_driver_is_asked(ecc: int, conclusion: str, tmp_path: Path) -> None:
    walked = concludes(driver(stopped(Scene(tmp_path)), ecc=ecc), "hang", watchdog="timed-out", collective="gpu")
    assert walked.conclusion_id == conclusion


def test_the_rank_that_nccl_names_is_the_answer(tmp_path: Path) -> None:
    walked = concludes(ras(stopped(Scene(tmp_path)), *[Look({**EVEN, 5: 25})] * 2), "hang")
    assert (walked.findings[-1].ranks, walked.findings[-1].hosts) == ((5,), ("node002",))
