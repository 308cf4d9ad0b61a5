"""Two nodes of the lab to put a state on and take off again: files, kernel log, drivers, ports, memory, processes."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .cluster import Cluster
from .node import TRAINER_UID, Node

PER_NODE = 4
WORLD = 2 * PER_NODE
PCI = ("00000000:1B:00.0", "00000000:4F:00.0", "00000000:9B:00.0", "00000000:CB:00.0")
"""Addresses of a node's GPUs by index."""

Frames = Sequence[tuple[str, str]]
"""(function, file) of a stack, innermost first."""

STEP = (
    " [{at}] iteration {step:8}/  100000 | consumed samples: {samples:12} | elapsed time per iteration (ms): 5000.0 |"
    " learning rate: 2.987E-04 | global batch size:   512 | lm loss: {loss} | loss scale: {scale} |"
    " grad norm: {norm} | number of skipped iterations:   0 | number of nan iterations: {nan:3} |"
)
RUN = """
nodes = "{first},{second}"
[reach]
user = "{user}"
port = {port}
identity = "{key}"
known_hosts = "{known_hosts}"
connect_timeout_s = 10
[reach.addresses]
{addresses}
[processes]
match = "lookalike"
{processes}
[paths]
logs = "{folder}/logs"
dumps = "{folder}/dumps/rank_"
checkpoints = "{folder}/ckpt"
[thresholds]
dump_wait_s = 1
{more}
"""
SMI = """#!/bin/sh
case "$*" in
*query-gpu*) {inventory} ;;
"-q -x") {query} ;;
"nvlink -e") {links} ;;
esac
"""
KERNEL_FILES = {"meminfo": "/proc/meminfo", "pressure_io": "/proc/pressure/io"}
"""A node's own file for what its kernel says there; the kernel's own words until told otherwise."""
PRESSURES = ("some", "full")
KEPT = {"sshd", "node.sh", "sleep"}


class Stage:
    """Two nodes, and the ways to bring a state about on them. What is written lies under `folder` on each node.

    Kernel logs are sound, GPUs sound, there are no ports and no processes until told otherwise. `processes` is more of
    that table of the run file, `more` more tables.
    """

    def __init__(self, cluster: Cluster, nodes: tuple[Node, Node]) -> None:
        self.nodes = nodes
        self.folder = cluster.shared / "run42"
        self.processes = self.more = ""
        self._cluster = cluster
        self._until_reset = ExitStack()
        self._launchers: list[Any] = []
        for node in nodes:
            (node.own / "class").mkdir()
            for own, place in {"class": "/sys/class", **KERNEL_FILES}.items():
                if own in KERNEL_FILES:
                    (node.own / own).write_text(Path(place).read_text())
                node.run(["mount", "--bind", str(node.own / own), place], root=True)
        self._kernel_log = (nodes[0].own / "kernel.log").read_text()

    def run_file(self) -> str:
        """The run file of a job on these nodes."""
        cluster = self._cluster
        return RUN.format(
            first=self.nodes[0].name,
            second=self.nodes[1].name,
            user=cluster.user,
            port=cluster.port,
            key=cluster.key,
            known_hosts=cluster.known_hosts,
            addresses="\n".join(f'{node.name} = "{node.address}"' for node in self.nodes),
            folder=self.folder,
            processes=self.processes,
            more=self.more,
        )

    def enter(self, context: AbstractContextManager[Any]) -> Any:
        """Hold something open until the state is taken off."""
        return self._until_reset.enter_context(context)

    def reset(self) -> None:
        """Take the state off: as after the nodes' start."""
        for node in self.nodes:
            for process in node.processes():
                if process.pid != 1 and process.name not in KEPT:
                    process.send(signal.SIGKILL)
        for launcher in self._launchers:
            launcher.communicate()
        self._launchers = []
        self._until_reset.close()
        self.processes = self.more = ""
        for node in self.nodes:
            shutil.rmtree(node.inside(self.folder), ignore_errors=True)
            shutil.rmtree(node.own / "class/infiniband", ignore_errors=True)
            (node.own / "kernel.log").write_text(self._kernel_log)
            (node.own / "kernel_log_restricted").unlink(missing_ok=True)
            for own, place in KERNEL_FILES.items():
                (node.own / own).write_text(Path(place).read_text())
            self.driver(node)

    def put(self, node: Node, path: str, text: str | bytes, *, age_s: float = 0.0) -> None:
        """A file under the run's folder of a node, and the folders above it, last written so long ago."""
        file = node.inside(self.folder / path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        for made in (file, *file.parents[: len(Path(path).parts) - 1]):
            os.chown(made, TRAINER_UID, TRAINER_UID)
            os.utime(made, (time.time() - age_s, time.time() - age_s))

    def ranks(
        self,
        frames: Frames,
        odd: Mapping[int, Mapping[str, Any]] | None = None,
        *,
        world: int = WORLD,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """A process of each rank that stands in `frames`; `odd` changes some, and leaves out those it maps to {}."""
        changed = odd or {}
        for index, node in enumerate(self.nodes):
            here = [rank for rank in range(index * PER_NODE, (index + 1) * PER_NODE) if rank < world]
            rows = [
                {"env": {**_environment(rank, world), **(env or {})}, "frames": frames, **changed.get(rank, {})}
                for rank in here
                if changed.get(rank) != {}
            ]
            self.start(node, rows)

    def start(self, node: Node, rows: Iterable[Mapping[str, Any]]) -> None:
        """Processes of a node as lookalike.py is told them; returns when they are as told."""
        told = [{"env": {}, "frames": [], "state": "S", "holds": None, "writes": False, **row} for row in rows]
        if not told:
            return
        self.put(node, f"start{len(self._launchers)}.json", json.dumps(told))
        list_of_them = str(self.folder / f"start{len(self._launchers)}.json")
        program = str(node.training.parent / "lookalike.py")
        launcher = node.popen([sys.executable, "-I", "-S", program, list_of_them])
        self._launchers.append(launcher)
        assert launcher.stdout
        if launcher.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{node.name}: {launcher.communicate()[0].decode()}")

    def driver(self, node: Node, *, query: str = "", links: str = "", answers: bool = True) -> None:
        """What nvidia-smi prints on a node: shell for `-q -x` and `nvlink -e`, sound unless told."""
        gpus = "\n".join(f"{index}, GPU-{node.name}-{index}, {address}" for index, address in enumerate(PCI))
        wait = "exec sleep 60"
        script = SMI.format(
            inventory=f"echo '{gpus}'", query=(query or document()) if answers else wait, links=links or ":"
        )
        self.put(node, "nvidia-smi", script)
        node.inside(self.folder / "nvidia-smi").chmod(0o755)

    def port(self, node: Node, *, state: str = "4: ACTIVE", grows: bool = False) -> None:
        """An InfiniBand port as the kernel shows it; its symbol errors grow where told."""
        port = node.own / "class/infiniband/mlx5_0/ports/1"
        (port / "counters").mkdir(parents=True)
        for name, value in {"state": state, "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}.items():
            (port / name).write_text(value + "\n")
        (port / "counters/symbol_error").write_text("5000\n")
        if grows:
            count = "n=5000; while :; do n=$((n + 3)); echo $n >/sys/class/infiniband/mlx5_0/ports/1/counters/$1"
            argv = ["sh", "-c", f"{count}; sleep 0.2; done", "sh", "symbol_error"]
            self._launchers.append(node.popen(argv, root=True))

    def short_of_memory(self, node: Node) -> None:
        """The kernel of a node says that hardly any memory is left."""
        (node.own / "meminfo").write_text(
            "MemTotal: 1000000 kB\nMemAvailable: 900 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
        )

    def wait_for_storage(self, node: Node) -> None:
        """Everything that could run on a node waits for storage, a Python process that is no rank among them."""
        (node.own / "pressure_io").write_text(
            "".join(f"{kind} avg10=97.00 avg60=90.00 total=1\n" for kind in PRESSURES)
        )
        self.start(node, [{"state": "D"}])

    def mount(self, node: Node, path: str, *options: str) -> None:
        """A file system of its own on a folder, until the state is taken off."""
        folder = str(self.folder / path)
        self.put(node, f"{path}/.keep", "")
        node.run(["mount", "-t", "tmpfs", *options, "storage", folder], root=True)
        self._until_reset.callback(node.run, ["umount", "-l", folder], root=True)

    def hang(self, node: Node, path: str) -> None:
        """Whoever looks into this folder waits in the kernel for good."""
        self.put(node, f"{path}/.keep", "")
        node.hang_mount(self.folder / path)
        self._until_reset.callback(node.run, ["umount", "-l", str(self.folder / path)], root=True)

    def refuse(self, node: Node) -> None:
        """The node takes no connection."""
        node.refuse_ssh()
        self._until_reset.callback(node.start_ssh)


State = Callable[[Stage], None]
"""Brings a state about on a stage that is as after its start."""


def _environment(rank: int, world: int) -> dict[str, str]:
    told = {"RANK": rank, "LOCAL_RANK": rank % PER_NODE, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": PER_NODE}
    return {name: str(value) for name, value in told.items()}


def document(more: str = "") -> str:
    """Shell that prints nvidia-smi's XML: four GPUs, `more` in that of index 1."""
    sound = "<clocks_event_reasons></clocks_event_reasons><temperature><gpu_temp>61 C</gpu_temp></temperature>"
    gpus = "".join(
        f'<gpu id="{address}"><uuid>GPU-{index}</uuid>{more if index == 1 and more else sound}</gpu>'
        for index, address in enumerate(PCI)
    )
    return f"echo '<nvidia_smi_log>{gpus}</nvidia_smi_log>'"


def step(
    number: int,
    ago_s: float,
    *,
    loss: str = "2.104E+00",
    norm: str = "0.812",
    scale: float = 1.0,
    nan: int = 0,
    more: str = "",
) -> str:
    """A line of Megatron's log, written so long ago."""
    at = stamp(ago_s)
    told = STEP.format(at=at, step=number, samples=512 * number, loss=loss, norm=norm, scale=scale, nan=nan)
    return f"{told}{more}\n"


def stamp(ago_s: float) -> str:
    """The time so long ago as Megatron prints it."""
    return datetime.fromtimestamp(time.time() - ago_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
