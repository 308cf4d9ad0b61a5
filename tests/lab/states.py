"""States of a job and its nodes, as faults leave them, and what each playbook has to conclude from them.

Nothing trains: logs, kernel logs, drivers, ports, checkpoint folders, dumps, NCCL's own account and processes are put
there as the fault would leave them. "First" and "second" are the two nodes; rank 5 is GPU 1 of the second.
"""

import pickle
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..unit.flight_recorder.handwritten import Entry, completed, dump, entry
from ..unit.probes.fake_ras import FakeRas, Look
from .history import History, serve
from .slowdowns import slow_down, straggle
from .stage import WORLD, Frames, Stage, State, document, step

CULPRIT = 5
PCI = "0000:4f:00"
LIBRARY, STANDARD = (Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib"))


def of_torch(function: str, file: str) -> tuple[str, str]:
    return function, str(LIBRARY / "torch" / file)


def of_python(function: str, file: str) -> tuple[str, str]:
    return function, str(STANDARD / file)


TRAIN = ("step", "train.py")
WAITS: Frames = (of_torch("all_reduce", "distributed/distributed_c10d.py"), TRAIN)
WAITS_ELSEWHERE: Frames = (of_torch("broadcast", "distributed/distributed_c10d.py"), ("check", "train.py"))
LOCKS: Frames = (of_python("wait", "threading.py"), ("get_shard", "train.py"))
LOADS: Frames = (
    of_python("wait", "multiprocessing/connection.py"),
    of_python("get", "multiprocessing/queues.py"),
    of_torch("_try_get_data", "utils/data/dataloader.py"),
    of_torch("__next__", "utils/data/dataloader.py"),
    TRAIN,
)
JOINS: Frames = (
    of_torch("_new_process_group_helper", "distributed/distributed_c10d.py"),
    of_torch("init_process_group", "distributed/distributed_c10d.py"),
    ("main", "train.py"),
)
WORKS: Frames = (("forward", "model.py"), TRAIN)

LOST = "79, GPU has fallen off the bus."
MMU = "31, pid=1005, name=python3, Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS"
NO_SPACE = "OSError: [Errno 28] No space left on device: '/c/iter_0007000/__3_1.distcp'\n"
KILLED = (
    "Out of memory: Killed process 1005 (pt_main_thread) total-vm:1kB, anon-rss:98000000kB, file-rss:0kB,"
    " shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0"
)
LINK_DOWN = "mlx5_core 0000:c1:00.0 ib0: Link down"
FILES_SILENT = "nfs: server filer1 not responding, still trying"
ROW = "63, Row Remapper: New row (0x0000000b1c2d3e40) marked for remapping, reset gpu to activate."
GPU_LOST = "echo 'Unable to determine the device handle for GPU0000:4F:00.0: GPU is lost.' >&2; exit 15"
NVLINK = "echo 'GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)'; printf '\\t Link 0: Replay Errors: %s\\n' $(date +%s)"


def steps_end(stage: Stage, *, ago_s: float = 2.0, number: int = 7100) -> None:
    """The log of the first rank, whose last step ended so long ago."""
    stage.put(stage.nodes[0], "logs/run42_x/attempt_0/0/stdout.log", step(number, ago_s), age_s=ago_s)


def sound(stage: Stage) -> None:
    """Every rank works, steps end, and checkpoints are saved."""
    stage.ranks(WORKS)
    saved(stage)


def stopped(
    stage: Stage,
    frames: Frames = WAITS,
    odd: Mapping[int, Mapping[str, Any]] | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """No step has ended for ten minutes, and every rank stands in `frames` but for the odd ones."""
    steps_end(stage, ago_s=600)
    stage.ranks(frames, odd, env=env)


def stopped_by(stage: Stage, words: str) -> None:
    """Every rank waits since a line of the second node's kernel, 10 s after the last step."""
    stopped(stage)
    stage.nodes[1].append_kernel_log(words, ago_s=590)


def elsewhere(frames: Frames, state: str = "S") -> dict[int, dict[str, Any]]:
    return {CULPRIT: {"frames": frames, "state": state}}


GONE: dict[int, dict[str, Any]] = {CULPRIT: {}}


def xid(stage: Stage, words: str) -> None:
    stage.nodes[1].append_kernel_log(f"NVRM: Xid (PCI:{PCI}): {words}")


# --- what NCCL, the recorder and the drivers say


def ras(stage: Stage, *looks: Look) -> None:
    """Ranks that wait, and what NCCL says of them at one look after the other."""
    service = stage.enter(FakeRas(looks).running())
    stopped(stage, env={"NCCL_RAS_ADDR": f"127.0.0.1:{service.port}"})


EVEN = dict.fromkeys(range(WORLD), 26)


def dumps(stage: Stage, of_rank: Callable[[int], list[Entry] | None], **changed: Any) -> None:
    """A dump of each rank of what was issued just now; of none where it gives None."""
    since = time.time_ns() - entry(0)["time_created_ns"]
    for rank in range(WORLD):
        entries = of_rank(rank)
        if entries is not None:
            entries = [{**each, "time_created_ns": each["time_created_ns"] + since} for each in entries]
            content = pickle.dumps(dump(entries, world=WORLD, **changed), protocol=2)
            stage.put(stage.nodes[rank // 4], f"dumps/rank_{rank}", content)


BEFORE = [completed(seq) for seq in range(1, 26)]
OPEN = [*BEFORE, entry(26)]


def absent(stage: Stage, frames: Frames) -> None:
    stopped(stage, odd=elsewhere(frames))
    dumps(stage, lambda rank: BEFORE if rank == CULPRIT else OPEN)


def absent_and_unseen(stage: Stage) -> None:
    """No stack can be taken."""
    stage.processes = 'py_spy = "/bin/false"'
    absent(stage, LOCKS)


def mismatch(stage: Stage) -> None:
    stopped(stage)
    other = [*BEFORE, entry(26, "_allgather_base")]
    dumps(stage, lambda rank: other if rank == CULPRIT else OPEN)


def opposite_order(stage: Stage) -> None:
    stopped(stage)
    table = {name: {"name": name, "desc": name, "ranks": str(list(range(WORLD)))} for name in ("x", "y")}

    def use(rank: int) -> list[Entry]:
        order = "xy" if rank < WORLD // 2 else "yx"
        return [entry(1, record=index, process_group=(name, name), pg_id=ord(name)) for index, name in enumerate(order)]

    dumps(stage, use, pg_config=table)


def no_dump(stage: Stage) -> None:
    stopped(stage)
    dumps(stage, lambda rank: None if rank == CULPRIT else OPEN)


def gpu_lags(stage: Stage, more: str = "") -> None:
    """The others have finished 30 operations, the culprit's GPU stands at the 11th though the rank issued all."""
    stopped(stage)
    if more:
        stage.driver(stage.nodes[1], query=document(more))
    rows = [completed(seq) for seq in range(1, 31)]
    behind = [*rows[:10], *(entry(seq) for seq in range(11, 31))]
    dumps(stage, lambda rank: behind if rank == CULPRIT else [*rows, entry(31)])


def all_joined(stage: Stage) -> None:
    stopped(stage)
    dumps(stage, lambda rank: OPEN)


ECC = "<ecc_errors><volatile><dram_uncorrectable>2</dram_uncorrectable></volatile></ecc_errors>"
PENDING = "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>"
HOT = (
    "<clocks_event_reasons><clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>"
    "</clocks_event_reasons>"
)


def driver_says(stage: Stage, **told: Any) -> None:
    steps_end(stage)
    stage.driver(stage.nodes[1], **told)


def ports(stage: Stage, **odd: Any) -> None:
    stopped(stage)
    stage.port(stage.nodes[0])
    stage.port(stage.nodes[1], **odd)


def blocked_host(stage: Stage) -> None:
    """A Python process of the host that is no rank waits in the kernel for good."""
    stopped(stage, odd=elsewhere(LOCKS))
    stage.start(stage.nodes[1], [{"state": "D"}])


def short_host(stage: Stage) -> None:
    stopped(stage, odd=elsewhere(LOCKS))
    stage.short_of_memory(stage.nodes[1])


def unseen(stage: Stage) -> None:
    """A node takes no connection, and the other tells nothing of the loss, of saves, or of attempts."""
    stage.put(stage.nodes[0], "ckpt/.keep", "")
    stage.put(stage.nodes[0], "logs/launcher.log", "torchrun begins\n")
    stage.ranks(WAITS)
    stage.refuse(stage.nodes[1])


def fault_of_idle_node(stage: Stage) -> None:
    stage.ranks(WORKS, world=4)
    steps_end(stage)
    xid(stage, LOST)


# --- checkpoints

MISSED_MIN = 45.0


def checkpoints(stage: Stage, *, age_min: float = 10.0, told: str | None = None, error: str = "") -> None:
    """One checkpoint every 20 min, the newest of step 6000 so long ago, and what the log tells of saves."""
    for number, back in ((6000, 0), (5000, 20), (4000, 40), (3000, 60)):
        stage.put(stage.nodes[0], f"ckpt/iter_{number:07}/__0_0.distcp", "x", age_s=60 * (age_min + back))
    stage.put(stage.nodes[1], "ckpt/iter_0006000/__4_0.distcp", "x", age_s=60 * age_min)
    text = (save(6000, 30) if told is None else told) + step(7100, 2)
    stage.put(stage.nodes[0], "logs/run42_x/attempt_0/0/stdout.log", text, age_s=2)
    if error:
        stage.put(stage.nodes[0], "logs/run42_x/attempt_0/0/stderr.log", error, age_s=30)


def save(number: int, ago_min: float, *, ends: bool = True) -> str:
    """A save as Megatron logs it."""
    begun, done = (
        datetime.fromtimestamp(time.time() - 60 * ago_min + later_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
        for later_s in (0, 40)
    )
    text = f" [{begun}] saving checkpoint at iteration {number:7} to /c in torch_dist format\n"
    return text + (f" [{done}]   successfully saved checkpoint from iteration {number:7} to /c\n" if ends else "")


def open_save() -> str:
    return save(6000, 30) + save(7000, 10, ends=False)


def saved(stage: Stage) -> None:
    checkpoints(stage)


def full(stage: Stage, age_min: float = 10.0) -> None:
    stage.mount(stage.nodes[1], "ckpt", "-o", "size=64k")
    checkpoints(stage, age_min=age_min)
    stage.nodes[1].run(["sh", "-c", f"head -c 60000 /dev/zero >{stage.folder}/ckpt/filler"], root=True)


def silent(stage: Stage, age_min: float = 10.0) -> None:
    checkpoints(stage, age_min=age_min)
    stage.hang(stage.nodes[1], "ckpt")


def unwritable(stage: Stage, age_min: float = 10.0) -> None:
    checkpoints(stage, age_min=age_min)
    stage.mount(stage.nodes[1], "ckpt", "-o", "ro")


def saver(stage: Stage, *, age_min: float = 10.0, writes: bool = False) -> None:
    """Rank 5 holds a file of the checkpoint under way open."""
    checkpoints(stage, age_min=age_min, told=open_save())
    stage.put(stage.nodes[1], "ckpt/iter_0007000/.metadata", "")
    held = {"holds": str(stage.folder / "ckpt/iter_0007000/__5_0.distcp"), "writes": writes}
    stage.ranks(WORKS, {CULPRIT: held})


# --- the loss


def lost(stage: Stage, tell: Callable[[int], str], *, since: int = 100, attempt: int = 0, age_s: float = 0.0) -> None:
    """A loss lost at step 7001, `tell` writing the log of each step before."""
    before = "".join(tell(number) for number in range(7001 - since, 7001))
    text = before + step(7001, age_s, loss="NAN", norm="nan", nan=1)
    stage.put(stage.nodes[0], f"logs/run42_x/attempt_{attempt}/0/stdout.log", text, age_s=age_s)


def before(**changed: Callable[[int], Any]) -> Callable[[int], str]:
    """A step line of a number below 7001; a keyword gives a field by how far below it is."""
    return lambda number: step(number, 7001 - number, **{name: of(7001 - number) for name, of in changed.items()})


def lost_again(stage: Stage, number: int) -> None:
    lost(stage, before(), attempt=0, age_s=4000)
    again = "".join(step(n, 60) for n in range(number - 100, number)) + step(number, 5, loss="NAN", norm="nan", nan=1)
    stage.put(stage.nodes[0], "logs/run42_x/attempt_1/0/stdout.log", again)


def lost_at_times(stage: Stage) -> None:
    """Every twentieth step has no finite loss; the last one has."""
    steps = range(6901, 7001)
    told = (step(n, 7001 - n, loss="NAN", nan=1) if n % 20 == 10 else step(n, 7001 - n) for n in steps)
    stage.put(stage.nodes[0], "logs/run42_x/attempt_0/0/stdout.log", "".join(told))


# --- a run that has slowed down, as Prometheus tells it


def slowed(stage: Stage, happen: Callable[[History], None]) -> None:
    history = History()
    happen(history)
    for (name, labels), value in list(history.series.items()):
        del history.series[name, labels]
        history.series[name, tuple((key, _on_stage(stage, told)) for key, told in labels)] = value
    folder = stage.enter(TemporaryDirectory())
    stage.more = f'[prometheus]\nurl = "{stage.enter(serve(history, Path(folder) / "prometheus"))}"'


def _on_stage(stage: Stage, label: str) -> str:
    """A label with the names of the stage's nodes for those that a history has."""
    for name, node in zip(("node001", "node002"), stage.nodes, strict=True):
        if label.startswith(name):
            return node.name + label.removeprefix(name)
    return label


def end_no_step(history: History) -> None:
    slow_down(history)
    for rank in range(WORLD):
        labels = history.of_rank(rank)
        history.put_exact("last_step_completed_timestamp_seconds", labels, time.time() - 900, since=-900)


def straggle_unseen(history: History) -> None:
    """Nothing tells who waits least."""
    straggle(history)
    history.drop("comm_wait_s")


def busy(stage: Stage) -> None:
    """The straggler's own Python runs."""
    slowed(stage, straggle)
    stage.ranks(WAITS, {CULPRIT: {"frames": (("tokenise_again", "train.py"), TRAIN), "state": "R"}})


def faulty(stage: Stage) -> None:
    """No exporter tells the clocks, and the driver tells of memory errors."""

    def happen(history: History) -> None:
        straggle(history)
        history.drop("sm_clock")

    slowed(stage, happen)
    stage.driver(stage.nodes[1], query=document(ECC))


def without_storage(stage: Stage) -> None:
    slowed(stage, straggle)
    stage.wait_for_storage(stage.nodes[1])


# --- attempts

SHARD = "ValueError: expected 4096 tokens, found 4095 in shard 17\n"
CUDA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
VOCABULARY = "FileNotFoundError: [Errno 2] No such file or directory: '/data/vocab.json'\n"
PEER = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:4711\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 88, in step\n'

Death = tuple[int, int, str, int]
"""(node, local rank, error, last step) of an attempt's end."""


def loop(stage: Stage, deaths: Mapping[int, Death], *, attempts: int = 3) -> None:
    """Attempts from 0 on, 300 s apart, of which some tell what they died of; the last has just begun."""
    for attempt in range(attempts + 1):
        age_s = 300.0 * (attempts - attempt) + 20.0
        if attempt in deaths:
            node, local, error, number = deaths[attempt]
            logs = f"logs/run42_x/attempt_{attempt}"
            stage.put(stage.nodes[node], f"{logs}/{local}/stdout.log", step(number, age_s + 5), age_s=age_s)
            stage.put(stage.nodes[node], f"{logs}/{(local + 1) % 4}/stderr.log", TRACEBACK + PEER, age_s=age_s - 2)
            stage.put(stage.nodes[node], f"{logs}/{local}/stderr.log", TRACEBACK + error, age_s=age_s)
        else:
            stage.put(stage.nodes[0], f"logs/run42_x/attempt_{attempt}/0/stdout.log", "", age_s=age_s)


SAME_HOST: dict[int, Death] = {n: (1, n, CUDA, 100 + 37 * n) for n in range(3)}


def loop_after(stage: Stage, words: str | None, deaths: Mapping[int, Death] = SAME_HOST) -> None:
    """A loop, and a line of the second node's kernel."""
    loop(stage, deaths)
    if words is not None:
        stage.nodes[1].append_kernel_log(words)


@dataclass(frozen=True)
class Case:
    """A state, what each playbook concludes from it, and whom the first one's last finding has to name.

    `second` is whether that is the second node and no other.
    """

    build: State
    conclusions: Mapping[str, str]
    ranks: tuple[int, ...] | None = None
    second: bool = False


def hang(
    conclusion: str,
    build: State,
    ranks: tuple[int, ...] | None = None,
    *,
    hardware: str | None = None,
    second: bool = False,
) -> Case:
    """A state that the tree of a hang is walked on, and where told that of a fault of the hardware."""
    return Case(build, {"hang": conclusion, **({"hardware": hardware} if hardware else {})}, ranks, second)


def one(
    playbook: str, conclusion: str, build: State, ranks: tuple[int, ...] | None = None, *, second: bool = False
) -> Case:
    """A state that one playbook is walked on."""
    return Case(build, {playbook: conclusion}, ranks, second)


def then(*parts: State) -> State:
    """One thing after the other."""

    def build(stage: Stage) -> None:
        for part in parts:
            part(stage)

    return build


RANK_5 = (CULPRIT,)
HANGS: dict[str, Case] = {
    "sound": Case(
        sound,
        {
            "hang": "healthy",
            "hardware": "no-fault",
            "checkpoint": "saved",
            "restart-loop": "first-start",
            "loss-not-finite": "finite",
        },
    ),
    "a GPU lost while steps end": hang(
        "fault-while-running", then(sound, lambda s: xid(s, LOST)), RANK_5, hardware="act-at-checkpoint"
    ),
    "a kernel log that may not be read": hang(
        "running-partly-seen", then(sound, lambda s: s.nodes[1].restrict_kernel_log()), hardware="not-enough"
    ),
    "a second attempt": Case(
        then(lambda s: s.ranks(WAITS), lambda s: loop(s, {}, attempts=1)),
        {"hang": "is-restarting", "restart-loop": "restarted"},
    ),
    "a lost GPU": hang(
        "hardware-fault", then(lambda s: stopped(s, odd=GONE), lambda s: xid(s, LOST)), RANK_5, hardware="act-now"
    ),
    "its own GPU error": hang(
        "program-error", then(lambda s: stopped(s, odd=GONE), lambda s: xid(s, MMU)), hardware="program-error"
    ),
    "killed for memory": hang(
        "out-of-memory",
        then(lambda s: stopped(s, odd=GONE), lambda s: s.nodes[1].append_kernel_log(KILLED)),
        hardware="out-of-memory",
    ),
    "dead to NCCL": hang("lost-to-nccl", lambda s: ras(s, Look(dict.fromkeys(range(7), 26), dead=[7])), (7,)),
    "an error in NCCL": hang("nccl-error", lambda s: ras(s, Look(EVEN, failed=[4])), (4,)),
    "one behind": hang("behind", lambda s: ras(s, Look({**EVEN, CULPRIT: 25})), RANK_5),
    "still launching": hang(
        "still-moving", lambda s: ras(s, *[Look(dict.fromkeys(EVEN, count)) for count in range(26, 40)])
    ),
    "a port down": hang("link-down", lambda s: ports(s, state="1: DOWN"), second=True),
    "a port that errs": hang("link-errors", lambda s: ports(s, grows=True), second=True),
    "a GPU with memory errors": hang(
        "gpu-degraded", lambda s: gpu_lags(s, ECC), RANK_5, hardware="gpu-memory", second=True
    ),
    "a GPU that lags": hang("gpu-lags", gpu_lags, RANK_5),
    "a link down when it stopped": hang(
        "hardware-fault", lambda s: stopped_by(s, LINK_DOWN), hardware="kernel-trouble", second=True
    ),
    "a file server silent when it stopped": hang("host-blocked", lambda s: stopped_by(s, FILES_SILENT), second=True),
    "all joined, and memory lost": hang(
        "hardware-fault",
        then(all_joined, lambda s: s.driver(s.nodes[1], query=document(ECC))),
        RANK_5,
        hardware="gpu-memory",
        second=True,
    ),
    "a host short of memory": hang("host-memory", short_host, second=True),
    "a task in the kernel": hang("host-blocked", blocked_host, second=True),
    "a lost process": hang("process-lost", lambda s: stopped(s, odd=GONE), RANK_5, second=True),
    "a stopped process": hang("process-stopped", lambda s: stopped(s, odd=elsewhere(WAITS, "T")), RANK_5),
    "a rank in the kernel": hang("process-blocked", lambda s: stopped(s, odd=elsewhere(WAITS, "D")), RANK_5),
    "no process": hang("job-gone", lambda s: steps_end(s, ago_s=600)),
    "another operation": hang("mismatch", mismatch, RANK_5),
    "two orders": hang("opposite-order", opposite_order),
    "another branch": hang("another-branch", lambda s: absent(s, WAITS_ELSEWHERE), RANK_5),
    "absent, and no stack": hang("absent", absent_and_unseen, RANK_5),
    "no dump of one": hang("no-dump", no_dump, RANK_5),
    "all joined": hang("network", all_joined),
    "one waits for a lock": hang("stuck-on-host", lambda s: stopped(s, odd=elsewhere(LOCKS)), RANK_5),
    "one waits for data": hang("data-of-few", lambda s: stopped(s, odd=elsewhere(LOADS)), RANK_5),
    "all wait for data": hang("data-of-all", lambda s: stopped(s, LOADS)),
    "one not yet up": hang("initialisation", lambda s: stopped(s, JOINS, elsewhere(LOCKS)), RANK_5),
    "all in initialisation": hang("initialisation-of-all", lambda s: stopped(s, JOINS)),
    "all wait": hang("all-wait", stopped),
    "no common picture": hang("no-cause-seen", lambda s: stopped(s, WORKS)),
    "half of it unseen": Case(
        unseen,
        dict.fromkeys(("hang", "hardware", "checkpoint", "restart-loop", "loss-not-finite"), "not-enough"),
    ),
}
FAULTS: dict[str, Case] = {
    "a contained memory error": one(
        "hardware", "contained", then(stopped, lambda s: xid(s, "94, Contained: SM (0x1). RST: No"))
    ),
    "a fault of a node that is not in use": one("hardware", "idle-node", fault_of_idle_node),
    "an unknown code while steps end": one(
        "hardware", "watch-unknown-code", then(sound, lambda s: xid(s, "991, some text"))
    ),
    "an unknown code": one("hardware", "unknown-code", then(stopped, lambda s: xid(s, "991, some text"))),
    "a link that is down": one(
        "hardware", "kernel-trouble", then(stopped, lambda s: s.nodes[1].append_kernel_log(LINK_DOWN)), second=True
    ),
    "a row that will be replaced": one("hardware", "watch", then(sound, lambda s: xid(s, ROW)), second=True),
    "a driver that has lost a GPU": one(
        "hardware", "driver-hangs", lambda s: driver_says(s, query=GPU_LOST), second=True
    ),
    "a driver that hangs": one("hardware", "driver-hangs", lambda s: driver_says(s, answers=False), second=True),
    "a row to be remapped": one(
        "hardware", "reset-pending", lambda s: driver_says(s, query=document(PENDING)), second=True
    ),
    "a hot GPU": one("hardware", "held-down", lambda s: driver_says(s, query=document(HOT)), second=True),
    "an NVLink that errs": one("hardware", "gpu-links", lambda s: driver_says(s, links=NVLINK), second=True),
}
SAVES: dict[str, Case] = {
    "a full disk": one("checkpoint", "full", full, second=True),
    "a mount that never answers": one("checkpoint", "silent", silent, second=True),
    "a folder mounted read-only": one("checkpoint", "unwritable", unwritable, second=True),
    "a save that failed": one("checkpoint", "save-failed", lambda s: checkpoints(s, told=open_save(), error=NO_SPACE)),
    "a saver that is stuck": one("checkpoint", "saver-stuck", saver, RANK_5),
    "a save that nobody writes": one("checkpoint", "saver-gone", lambda s: checkpoints(s, told=open_save())),
    "a save under way": one("checkpoint", "saving", lambda s: saver(s, writes=True)),
    "a late save": one("checkpoint", "late", lambda s: saver(s, age_min=MISSED_MIN, writes=True)),
    "two saves missed, full": one("checkpoint", "stop-full", lambda s: full(s, MISSED_MIN)),
    "two saves missed, silent": one("checkpoint", "stop-silent", lambda s: silent(s, MISSED_MIN)),
    "two saves missed, read-only": one("checkpoint", "stop-unwritable", lambda s: unwritable(s, MISSED_MIN)),
    "two saves missed, an error": one(
        "checkpoint", "stop-failed", lambda s: checkpoints(s, age_min=MISSED_MIN, told=open_save(), error=NO_SPACE)
    ),
    "two saves missed, stuck": one("checkpoint", "stop-stuck", lambda s: saver(s, age_min=MISSED_MIN), RANK_5),
    "two saves missed, nobody writes": one(
        "checkpoint", "stop-gone", lambda s: checkpoints(s, age_min=MISSED_MIN, told=open_save())
    ),
    "a save overdue, all in order": one("checkpoint", "overdue", lambda s: checkpoints(s, age_min=35.0)),
    "two saves missed, all in order": one(
        "checkpoint", "stop-unexplained", lambda s: checkpoints(s, age_min=MISSED_MIN)
    ),
}
LOSSES: dict[str, Case] = {
    "logits that grew": one(
        "loss-not-finite",
        "attention-logits",
        lambda s: lost(s, before(more=lambda left: f" max attention logit: {20 + 10 * max(0, 15 - left):.2f} |")),
    ),
    "gradients that grew": one(
        "loss-not-finite",
        "diverging",
        lambda s: lost(s, before(norm=lambda left: f"{0.8 * 1.3 ** max(0, 15 - left):.3f}")),
    ),
    "a scale that fell": one(
        "loss-not-finite",
        "scale-collapse",
        lambda s: lost(s, before(scale=lambda left: 65536.0 / 2 ** max(0, 6 - left))),
    ),
    "from one step to the next": one("loss-not-finite", "sudden", lambda s: lost(s, before())),
    "from one step to the next, by a faulty GPU": one(
        "loss-not-finite",
        "faulty-gpu",
        then(lambda s: lost(s, before()), lambda s: s.driver(s.nodes[1], query=document(ECC))),
        second=True,
    ),
    "a log that begins too late": one("loss-not-finite", "unexplained", lambda s: lost(s, before(), since=5)),
    "the same data again": one("loss-not-finite", "data-owner", lambda s: lost_again(s, 7001)),
    "single steps lost": one("loss-not-finite", "recurring", lost_at_times),
    "other data": one("loss-not-finite", "numerics-owner", lambda s: lost_again(s, 7300)),
}
LOOPS: dict[str, Case] = {
    "one step": one("restart-loop", "same-step", lambda s: loop(s, dict.fromkeys(range(3), (1, 1, SHARD, 10)))),
    "one host": one("restart-loop", "same-host", lambda s: loop(s, SAME_HOST)),
    "one error": one(
        "restart-loop",
        "same-error",
        lambda s: loop(s, {0: (0, 0, VOCABULARY, 3), 1: (1, 1, VOCABULARY, 40), 2: (0, 2, VOCABULARY, 90)}),
    ),
    "one host, which loses its GPU": one(
        "restart-loop", "hardware-fault", lambda s: loop_after(s, f"NVRM: Xid (PCI:{PCI}): {LOST}")
    ),
    "one host, the program's own error": one(
        "restart-loop", "program-error", lambda s: loop_after(s, f"NVRM: Xid (PCI:{PCI}): {MMU}")
    ),
    "killed for memory each time": one("restart-loop", "out-of-memory", lambda s: loop_after(s, KILLED, {})),
    "another end each time": one(
        "restart-loop",
        "different",
        lambda s: loop(s, {0: (0, 0, SHARD, 10), 1: (1, 2, CUDA, 55), 2: (0, 3, VOCABULARY, 80)}),
    ),
    "nothing tells": one("restart-loop", "loop-unexplained", lambda s: loop(s, {})),
}
SLOWDOWNS: dict[str, Case] = {
    "no step ends": one("slowdown", "stopped", lambda s: slowed(s, end_no_step)),
    "a rank busy in Python": one("slowdown", "software-straggler", busy, RANK_5),
    "a straggler without a stack": one("slowdown", "unexplained-straggler", lambda s: slowed(s, straggle), RANK_5),
    "a straggler with memory errors": one("slowdown", "faulty-straggler", faulty, second=True),
    "a straggler without storage": one("slowdown", "host-storage", without_storage, second=True),
    "nobody waits least": one("slowdown", "not-enough", lambda s: slowed(s, straggle_unseen)),
}
"""What the series alone tell has its cases in slowdowns.py."""
GROUPS: dict[str, dict[str, Case]] = {
    "hangs": HANGS,
    "faults": FAULTS,
    "saves": SAVES,
    "losses and loops": {**LOSSES, **LOOPS},
    "slowdowns": SLOWDOWNS,
}
