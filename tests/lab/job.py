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
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypedDict

from .node import TRAINER_UID, Node
from .process import Process

FaultKind = Literal["none", "sleep", "extra-all-reduce"]

MARK = "LAB_RUN"


class Options(TypedDict, total=False):
    """The fields of a plan but its fault."""

    rank: int
    step: int
    ranks_per_node: int
    step_seconds: float
    stall_seconds: float


@dataclass(frozen=True)
class Plan:
    """What the job does: `rank` fails in the way of `fault` at `step`; a rank writes its dump after `stall_seconds`."""

    fault: FaultKind = "none"
    rank: int = 5
    step: int = 10
    ranks_per_node: int = 4
    step_seconds: float = 0.05
    stall_seconds: float = 4.0

    def environment(self) -> dict[str, str]:
        """The settings as train.py reads them."""
        return {
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
    agents: list["subprocess.Popen[bytes]"] = field(default_factory=list, repr=False)

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
        node, local = self.node_of(rank), rank % self.plan.ranks_per_node
        files = node.inside(self.log_dir).glob(f"*/attempt_{attempt}/{local}/{stream}.log")
        return "".join(file.read_text() for file in files)

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

    def wait_hung(self, *, timeout: float = 60) -> None:
        """Return when every rank but the culprit has written a dump because its step stands still."""
        others = set(range(self.world_size)) - {self.plan.rank}
        self._wait(lambda: self.dumps().keys() >= others, "the dumps of the ranks that wait", timeout)

    def stop(self) -> None:
        """Kill every process of the job."""
        for node in self.nodes:
            for process in self._processes(node):
                process.send(signal.SIGKILL)
        for agent in self.agents:
            agent.wait()

    def _wait(self, happened: Callable[[], bool], what: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not happened():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {timeout} s\n{self._tail()}")
            time.sleep(0.02)

    def _tail(self) -> str:
        logs = itertools.chain.from_iterable(node.inside(self.folder).rglob("*.log") for node in self.nodes)
        return "\n".join(f"== {log}\n{log.read_text()[-1500:]}" for log in logs if log.stat().st_size)

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
    """Start torchrun on every node; the caller stops the job."""
    job = Job(nodes, folder, plan)
    for node in nodes:
        for made in (folder, folder / "dumps"):
            node.inside(made).mkdir()
            os.chown(node.inside(made), TRAINER_UID, TRAINER_UID)
    endpoint = f"{nodes[0].name}:{_free_port(nodes[0].address)}"
    job.agents.extend(_start_agent(job, node, endpoint) for node in nodes)
    return job


def _start_agent(job: Job, node: Node, endpoint: str) -> "subprocess.Popen[bytes]":
    torchrun = [str(Path(sys.prefix) / "bin/torchrun"), f"--nnodes={len(job.nodes)}"]
    torchrun += [f"--nproc-per-node={job.plan.ranks_per_node}", f"--rdzv-id={job.run}", "--rdzv-backend=c10d"]
    torchrun += [f"--rdzv-endpoint={endpoint}", f"--local-addr={node.address}"]
    torchrun += [f"--log-dir={job.log_dir}", "--redirects=3"]
    environment = {
        MARK: job.run,
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": str(job.dump_prefix),
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(job.pipe_prefix),
        **job.plan.environment(),
    }
    with node.inside(job.folder / "torchrun.log").open("wb") as output:
        return node.popen([*torchrun, str(node.training / "train.py")], env=environment, output=output)


def _free_port(address: str) -> int:
    with closing(socket.socket()) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
