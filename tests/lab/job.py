"""A training job on the lab's nodes: real torchrun, gloo on CPU, started healthy or with a fault."""

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict

from .node import TRAINER_UID, Node
from .ports import port_of, reserve
from .process import Process
from .warm_start import WarmAgent, start_warm

FaultKind = Literal[
    "none",
    "sleep",  # asleep in fetch_shard, before the collective
    "lock",  # waits in fetch_shard for a lock that its thread refill_shard_cache keeps
    "dataloader",  # its loader's worker never returns from read_sample
    "hung-mount",  # in state D in fetch_shard, on storage that never answers
    "init",  # asleep in fetch_tokenizer before it joins the first process group
    "restarting",  # raises in _check_batch each time, and torchrun starts everyone again
    "extra-all-reduce",  # one more all_reduce of one element, in _check_batch
    "skip-all-reduce",  # leaves out the first all_reduce of sync_gradients
    "size",  # 960 elements for 1024 in count_tokens
    "dtype",  # float64 for float32 in reduce_loss
    "type",  # broadcast for all_reduce in count_tokens
]
"""What goes wrong on one rank; a frozen or a lost process starts as "none", see `Job.freeze_rank` and `kill_rank`."""

MARK = "LAB_RUN"

Agent = WarmAgent | subprocess.Popen[bytes]


class Options(TypedDict, total=False):
    """The fields of a plan but its fault."""

    rank: int
    step: int
    ranks_per_node: int
    step_seconds: float
    stall_seconds: float
    watchdog: bool
    warm: bool


@dataclass(frozen=True)
class Plan:
    """What the job does: `rank` fails in the way of `fault` at `step`.

    A rank writes its dump when a step takes `stall_seconds`; with `watchdog` it also prints what NCCL's would.
    Unless `warm`, torchrun and each rank start as new programs, which takes several times as long; they always do in a
    job that starts again.
    """

    fault: FaultKind = "none"
    rank: int = 5
    step: int = 10
    ranks_per_node: int = 4
    step_seconds: float = 0.05
    stall_seconds: float = 3.0
    watchdog: bool = False
    warm: bool = True

    def environment(self, dataset: Path) -> dict[str, str]:
        """The settings as train.py reads them; `dataset` is a folder."""
        return {
            "LAB_DATASET": str(dataset),
            "LAB_WATCHDOG": "1" if self.watchdog else "0",
            "LAB_FAULT": self.fault,
            "LAB_CULPRIT": str(self.rank),
            "LAB_FAULT_STEP": str(self.step),
            "LAB_STEP_SECONDS": str(self.step_seconds),
            "LAB_STALL_SECONDS": str(self.stall_seconds),
        }


@dataclass(frozen=True)
class Job:
    """A job that was started with its files in `folder`, which is the same path on every node."""

    nodes: tuple[Node, ...]
    folder: Path
    plan: Plan
    agents: list[Agent] = field(default_factory=list, repr=False)
    _silenced: set[int] = field(default_factory=set, repr=False)
    _sockets: list[int] = field(default_factory=list, repr=False)

    @property
    def run(self) -> str:
        """The run's name and torchrun's rendezvous id."""
        return self.folder.name

    @property
    def log_dir(self) -> Path:
        """torchrun's --log-dir: `<log_dir>/<run>_<random>/attempt_<n>/<local rank>/{stdout,stderr}.log`."""
        return self.folder / "logs"

    @property
    def dump_prefix(self) -> Path:
        """A rank's Flight Recorder dump is this with the rank added."""
        return self.folder / "dumps" / "rank_"

    @property
    def pipe_prefix(self) -> Path:
        """Writing to this with the rank and `.pipe` added makes the rank dump at once."""
        return self.folder / "dumps" / "pipe_rank_"

    @property
    def world_size(self) -> int:
        return self.plan.ranks_per_node * len(self.nodes)

    def node_of(self, rank: int) -> Node:
        return self.nodes[rank // self.plan.ranks_per_node]

    def pids(self) -> dict[int, tuple[Node, int]]:
        """Rank → its node and process id there, for the ranks that are alive; loader workers are not counted."""
        return {rank: (node, process.pid) for rank, (node, process) in self._ranks().items()}

    def log(self, rank: int, stream: Literal["stdout", "stderr"], *, attempt: int = 0) -> str:
        """What a rank has printed so far; empty when it has not begun."""
        folders = self._attempt(self.node_of(rank), attempt)
        files = [folder / str(rank % self.plan.ranks_per_node) / f"{stream}.log" for folder in folders]
        return "".join(file.read_text() for file in files if file.exists())

    def last_step(self) -> int:
        """The last step in the log of the last rank, 0 before the first."""
        steps = re.findall(r"iteration +(\d+)/", self.log(self.world_size - 1, "stdout"))
        return int(steps[-1]) if steps else 0

    def dumps(self) -> dict[int, Path]:
        """Rank → its Flight Recorder dump as a file on the host."""
        files = {rank: self.node_of(rank).inside(Path(f"{self.dump_prefix}{rank}")) for rank in range(self.world_size)}
        return {rank: file for rank, file in files.items() if file.exists()}

    def wait_steps(self, step: int, *, timeout: float = 60) -> None:
        """Return when the job has got to this step."""
        self._wait(lambda: self.last_step() >= step, f"step {step}", timeout)

    def wait_dumps(self, ranks: set[int], *, timeout: float = 60) -> None:
        """Return when these ranks have written a dump."""
        self._wait(lambda: self.dumps().keys() >= ranks, f"dumps of {ranks}", timeout)

    def wait_hung(self, *, timeout: float = 60) -> None:
        """Return when every rank that can has written a dump or, in initialisation, has gone to join its peers."""
        if self.plan.fault == "init":
            self._wait(self._all_stand_in_start_up, "the ranks to join their peers", timeout)
        else:
            self.wait_dumps(set(range(self.world_size)) - self._silenced, timeout=timeout)

    def wait_attempt(self, attempt: int, *, timeout: float = 60) -> None:
        """Return when torchrun has begun this attempt, the first being 0, on the culprit's node.

        Each torchrun counts only the failures of its own ranks, so the other node may write its logs anew under the
        old number.
        """
        self._wait(lambda: bool(self._attempt(self.node_of(self.plan.rank), attempt)), f"attempt {attempt}", timeout)

    def freeze_rank(self, rank: int) -> None:
        """Stop a rank's process with SIGSTOP."""
        self._ranks()[rank][1].send(signal.SIGSTOP)
        self._silenced.add(rank)

    def stall_transport(self, rank: int) -> None:
        """Hold the threads that move a rank's messages: everyone joins the next collective, and nobody finishes."""
        threads = self._ranks()[rank][1].threads("gloo")
        program = str(Path(__file__).with_name("stop_threads.py"))
        holder = subprocess.Popen([sys.executable, program, *map(str, threads)], stdout=subprocess.PIPE)
        self.agents.append(holder)
        assert holder.stdout is not None
        if holder.stdout.readline() != b"held\n":
            raise RuntimeError(f"the transport of rank {rank} could not be held")
        holder.stdout.close()

    def kill_rank(self, rank: int) -> None:
        """Make a rank's process disappear while the others go on waiting for it, as when its node loses power.

        Its node's torchrun goes first, or it would end the other ranks too. Gloo's peers would see the connections
        close, unlike NCCL's over InfiniBand, so these stay open here. Not for node001, whose torchrun keeps the store.
        """
        node, process = self._ranks()[rank]
        self._sockets.extend(process.duplicate_sockets())
        for agent in self._processes(node):
            if agent.host_pid == process.host_parent:
                agent.send(signal.SIGKILL)
        process.send(signal.SIGKILL)
        self._silenced.add(rank)
        self._wait(lambda: rank not in self.pids(), f"the end of rank {rank}", 10)

    def stop(self) -> None:
        """Kill every process of the job."""
        for node in self.nodes:
            for process in self._processes(node):
                process.send(signal.SIGKILL)
        for agent in self.agents:
            agent.kill()
            agent.wait()
        while self._sockets:
            os.close(self._sockets.pop())

    def _attempt(self, node: Node, attempt: int) -> list[Path]:
        return list(node.inside(self.log_dir).glob(f"{self.run}_*/attempt_{attempt}"))

    def _all_stand_in_start_up(self) -> bool:
        """Whether every rank has begun to join, the culprit what comes before, and none has run since."""
        for rank in range(self.world_size):
            line = "building tokenizer" if rank == self.plan.rank else "initializing torch distributed"
            if line not in self.log(rank, "stdout"):
                return False
        return all(process.state == "S" for _ in range(10) for _, process in self._ranks().values())

    def _wait(self, happened: Callable[[], bool], what: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not happened():
            if all(agent.poll() is not None for agent in self.agents):
                raise RuntimeError(f"{what}: the job ended\n{self._tail()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {timeout} s\n{self._tail()}")
            time.sleep(0.02)

    def _tail(self) -> str:
        logs = itertools.chain.from_iterable(node.inside(self.folder).rglob("*.log") for node in self.nodes)
        return "\n".join(f"== {log}\n{log.read_text()[-600:]}" for log in logs if log.stat().st_size)

    def _processes(self, node: Node) -> list[Process]:
        return [process for process in node.processes() if process.environment().get(MARK) == self.run]

    def _ranks(self) -> dict[int, tuple[Node, Process]]:
        found: dict[int, tuple[Node, Process]] = {}
        for node in self.nodes:
            ranks = {p.host_pid: (int(rank), p) for p in self._processes(node) if (rank := p.environment().get("RANK"))}
            # A loader's worker is forked from its rank and has the same environment.
            found |= {rank: (node, p) for rank, p in ranks.values() if p.host_parent not in ranks}
        return found


def start_job(nodes: tuple[Node, ...], folder: Path, plan: Plan) -> Job:
    """Start torchrun on every node."""
    job = Job(nodes, folder, plan)
    for node in nodes:
        for made in (folder, folder / "dumps", folder / "dataset"):
            node.inside(made).mkdir()
            os.chown(node.inside(made), TRAINER_UID, TRAINER_UID)
    if plan.fault == "hung-mount":
        job.node_of(plan.rank).hang_mount(folder / "dataset")
    # The rendezvous store binds all addresses of this machine (PyTorch 2.13), which every node shares.
    store = reserve("::" if socket.has_dualstack_ipv6() else "0.0.0.0")
    endpoint = f"{nodes[0].name}:{port_of(store)}"
    job._sockets.append(store.detach())
    job.agents.extend(_start_agent(job, node, endpoint) for node in nodes)
    return job


def _start_agent(job: Job, node: Node, endpoint: str) -> Agent:
    binaries = Path(sys.prefix) / "bin"
    torchrun = [str(binaries / "torchrun"), f"--nnodes={len(job.nodes)}"]
    torchrun += [f"--nproc-per-node={job.plan.ranks_per_node}", f"--rdzv-id={job.run}", "--rdzv-backend=c10d"]
    torchrun += [f"--rdzv-endpoint={endpoint}", f"--local-addr={node.address}"]
    torchrun += [f"--log-dir={job.log_dir}", "--redirects=3"]
    if job.plan.fault == "restarting":
        torchrun.append("--max-restarts=100")
    torchrun.append(str(node.training / "train.py"))
    environment = {
        MARK: job.run,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(node.training),
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": str(job.dump_prefix),
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(job.pipe_prefix),
        **job.plan.environment(job.folder / "dataset"),
    }
    with node.inside(job.folder / "torchrun.log").open("wb") as output:
        # Forked agents that start their ranks anew do not always find one another again.
        if job.plan.warm and job.plan.fault != "restarting":
            return start_warm(node, [str(binaries / "python"), *torchrun], env=environment, output=output)
        return node.popen(torchrun, env=environment, output=output)
