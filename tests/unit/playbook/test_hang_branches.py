"""The hang tree comes to each of its conclusions from what nodes say.

What the dumps of a hang say is decided elsewhere, on dumps; here it is the operator's word.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from oncall.playbook.loader import load

from ..probes.fake_ras import Look
from ..readings.evidence import NOW, UPTIME_S, Part, Scene, process
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


Frames = tuple[tuple[str, str, int], ...]


def stopped(
    scene: Scene,
    text: str = "",
    *,
    lost: int | None = None,
    holder: int | None = None,
    state: str = "S",
    frames: Frames = WAITS,
    instead: Frames = LOCKS,
    last_step: str = "02:50:00",
    attempt: int = 0,
) -> Scene:
    """Every rank stands in `frames`, but for one that is gone, or that stands elsewhere instead; there are no dumps.

    `state` is that of the holder's process. The last step ended at `last_step`, in this attempt.
    """
    here = [rank for rank in range(8) if rank != lost]
    nodes = {"node001": [r for r in here if r < 4], "node002": [r for r in here if r >= 4]}
    states = {rank: state if rank == holder else "S" for rank in here}
    running = {r: process(r, state=states[r], again=states[r]) for r in here}
    stacks = {r: [stack(r, *(instead if r == holder else frames))] for r in here}
    for probe, parts in (("processes", running), ("stacks", stacks)):
        scene.say(probe, {host: [part for rank in ranks for part in parts[rank]] for host, ranks in nodes.items()})
    folders: Part = ("attempts", {}, f"{int(NOW.timestamp()) - 100} /l/run42_x/attempt_{attempt}\n")
    told = [rank_log(step_line(7, f"2026-03-03 {last_step}"))] if not attempt else []
    scene.say("logs", {"node001": [folders, *told], "node002": []})
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


LOADS = (
    ("wait", "multiprocessing/connection.py", 930),
    ("get", "multiprocessing/queues.py", 103),
    ("_try_get_data", "torch/utils/data/dataloader.py", 1120),
    ("__next__", "torch/utils/data/dataloader.py", 700),
    ("main", "train.py", 90),
)
JOINS = (
    ("_new_process_group_helper", "torch/distributed/distributed_c10d.py", 2169),
    ("init_process_group", "torch/distributed/distributed_c10d.py", 1800),
    ("main", "train.py", 9),
)
WORKS = (("forward", "model.py", 40), ("main", "train.py", 90))
LOST = xid(79, text="GPU has fallen off the bus.")


def gone(scene: Scene) -> Scene:
    """No process and no launcher on any node."""
    stopped(scene)
    return scene.say("processes", {"node001": [("agents", {}, "")], "node002": [("agents", {}, "")]})


def unseen(scene: Scene) -> Scene:
    """A job that has stopped, of which node002 tells nothing."""
    stopped(scene)
    for probe in ("processes", "stacks", "kernel", "dumps"):
        own = scene.case.evidence(probe)
        assert own is not None
        parts = [(p.name, dict(p.attributes), p.data) for p in own.parts("node001") if p.name not in {"clock", "end"}]
        scene.say(probe, {"node001": parts, "node002": "no SSH greeting within 6 s"})
    return scene


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
    "sound": ("healthy", lambda s: stopped(s, last_step="02:59:58")),
    "a fault while it runs": ("fault-while-running", lambda s: stopped(s, LOST, last_step="02:59:58")),
    "running, a rank not seen": ("running-partly-seen", lambda s: stopped(s, last_step="02:59:58", lost=5)),
    "restarting": ("is-restarting", lambda s: stopped(s, attempt=1)),
    "a lost GPU": ("hardware-fault", lambda s: stopped(s, LOST, lost=5)),
    "a lost process": ("process-lost", lambda s: stopped(s, lost=5)),
    "a stopped process": ("process-stopped", lambda s: stopped(s, holder=5, state="T")),
    "a process in the kernel": ("process-blocked", lambda s: stopped(s, holder=5, state="D")),
    "no process": ("job-gone", gone),
    "one waits for data": ("data-of-few", lambda s: stopped(s, holder=5, instead=LOADS)),
    "all wait for data": ("data-of-all", lambda s: stopped(s, frames=LOADS)),
    "one not yet up": ("initialisation", lambda s: stopped(s, frames=JOINS, holder=5)),
    "all in initialisation": ("initialisation-of-all", lambda s: stopped(s, frames=JOINS)),
    "no common picture": ("no-cause-seen", lambda s: stopped(s, frames=WORKS)),
    "half of it unseen": ("not-enough", unseen),
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


BY_DUMPS = {"mismatch": "mismatch", "order": "opposite-order", "no-dump": "no-dump", "gpu": "gpu-lags"}


@pytest.mark.parametrize("told", BY_DUMPS)
def test_what_the_dumps_say_leads_on(told: str, tmp_path: Path) -> None:
    walked = concludes(stopped(Scene(tmp_path)), "hang", watchdog="timed-out", collective=told)
    assert walked.conclusion_id == BY_DUMPS[told]


@pytest.mark.parametrize(("stands", "conclusion"), [("waiting", "another-branch"), ("unknown", "absent")])
def test_an_absent_rank_is_looked_for_elsewhere(stands: str, conclusion: str, tmp_path: Path) -> None:
    own = {"watchdog": "timed-out", "collective": "absent", "stack-of-absent": stands}
    assert concludes(stopped(Scene(tmp_path)), "hang", **own).conclusion_id == conclusion


@pytest.mark.parametrize(
    ("stands", "conclusion"),
    [("data", "data-of-few"), ("host", "stuck-on-host"), ("waiting", "no-dump"), ("unknown", "no-dump")],
)
def test_a_rank_without_a_dump_is_looked_for_in_the_stacks(stands: str, conclusion: str, tmp_path: Path) -> None:
    own = {"watchdog": "timed-out", "collective": "no-dump", "stack-of-lost-dump": stands}
    assert concludes(stopped(Scene(tmp_path)), "hang", **own).conclusion_id == conclusion


def test_no_conclusion_is_left_out() -> None:
    reached = {conclusion for conclusion, _ in CASES.values()} | set(BY_DUMPS.values())
    reached |= {"network", "gpu-degraded", "another-branch", "absent"}
    assert reached == load("hang").conclusions.keys()


@pytest.mark.parametrize(("ecc", "conclusion"), [(2, "gpu-degraded"), (0, "gpu-lags")])
def test_where_a_gpu_lags_its_driver_is_asked(ecc: int, conclusion: str, tmp_path: Path) -> None:
    walked = concludes(driver(stopped(Scene(tmp_path)), ecc=ecc), "hang", watchdog="timed-out", collective="gpu")
    assert walked.conclusion_id == conclusion


def test_the_rank_that_nccl_names_is_the_answer(tmp_path: Path) -> None:
    walked = concludes(ras(stopped(Scene(tmp_path)), *[Look({**EVEN, 5: 25})] * 2), "hang")
    assert (walked.findings[-1].ranks, walked.findings[-1].hosts) == ((5,), ("node002",))
