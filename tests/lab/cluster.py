"""The lab: nodes on this one machine with real parts, and training jobs on them that fail as told."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

from .job import FaultKind, Job, Options, Plan, start_job
from .node import Node, start_node
from .ports import port_of, reserve

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Cluster:
    """Running nodes and how to log in to them: one port, key and known_hosts file for all.

    `user` is a login without root in a plain shell; `noisy_user` is the same account with a banner and a .bashrc that
    prints; root logs in with the same key. `shared` is a path at which every node sees a folder of its own.
    """

    nodes: tuple[Node, ...]
    port: int
    key: Path
    known_hosts: Path
    ssh_config: Path
    shared: Path
    user: str = "trainer"
    noisy_user: str = "noisy"
    jobs: list[Job] = field(default_factory=list)

    def node(self, name: str) -> Node:
        """The node of this host name; KeyError when there is none."""
        return {node.name: node for node in self.nodes}[name]

    def ssh(
        self, node: Node, command: str, *, user: str | None = None, timeout: float = 60
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command with the machine's own OpenSSH client, strict about host keys."""
        return subprocess.run(
            self._login(node, command, user),
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    @contextmanager
    def asking(self, node: Node, command: str) -> "Iterator[subprocess.Popen[bytes]]":
        """A command as `ssh` runs it that is given up at the end: nobody waits for its answer."""
        argv = self._login(node, command, None)
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asked:
            try:
                yield asked
            finally:
                asked.kill()

    def _login(self, node: Node, command: str, user: str | None) -> list[str]:
        return ["ssh", "-F", str(self.ssh_config), "-l", user or self.user, node.name, command]

    def train(self, fault: FaultKind = "none", *, run: str = "run42", **options: Unpack[Options]) -> Job:
        """Start a training job on all nodes, with its files in `shared / run`; it ends with the cluster."""
        self.jobs.append(start_job(self.nodes, self.shared / run, Plan(fault, **options)))
        return self.jobs[-1]


@contextmanager
def start_cluster(count: int = 2, *, py_spy: bool = True, sudo: bool = False) -> Iterator[Cluster]:
    """Nodes node001… on 127.0.2.1…; nothing of them outlives the context.

    `py_spy` puts py-spy on the PATH of every login, `sudo` lets the trainer use sudo without a password.
    """
    if sudo and not shutil.which("sudo"):
        raise FileNotFoundError("sudo is not installed")
    lab = Path(tempfile.mkdtemp(prefix="oncall-lab-", dir="/tmp"))
    lab.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, lab)
        names = {f"node{number:03}": f"127.0.2.{number}" for number in range(1, count + 1)}
        port = _reserve_port(list(names.values()), stack)
        shared = lab / "srv"
        for folder in (shared, lab / "bin", lab / "keys"):
            folder.mkdir()
        if py_spy:
            (lab / "bin/py-spy").symlink_to(Path(sys.prefix) / "bin/py-spy")
        for part in ("node.sh", "hung_mount.py"):
            shutil.copy(HERE / part, lab)
        shutil.copytree(HERE / "training", lab / "training")
        key = _login_key(lab / "keys")
        hosts = "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in names.items())
        nodes = []
        for name, address in names.items():
            nodes.append(start_node(name, address, port, lab=lab, shared=shared, hosts=hosts, sudo=sudo))
            stack.callback(nodes[-1].stop)
        known_hosts = _known_hosts(lab / "keys/known_hosts", nodes)
        ssh_config = _ssh_config(lab / "keys/config", nodes, key, known_hosts)
        cluster = Cluster(tuple(nodes), port, key, known_hosts, ssh_config, shared)
        try:
            yield cluster
        finally:
            for job in cluster.jobs:
                job.stop()


def _reserve_port(addresses: list[str], stack: ExitStack) -> int:
    """One that is free on every address; it stays reserved, also while a node refuses connections."""
    for _ in range(20):
        with ExitStack() as taken:
            first = taken.enter_context(reserve(addresses[0]))
            try:
                for address in addresses[1:]:
                    taken.enter_context(reserve(address, port_of(first)))
            except OSError:
                continue
            stack.push(taken.pop_all())
            return port_of(first)
    raise RuntimeError(f"no port is free on all of {addresses}")


def _login_key(keys: Path) -> Path:
    key = keys / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key, "-C", "lab"], check=True)
    shutil.copy(key.with_suffix(".pub"), keys / "authorized_keys")
    os.chmod(keys / "authorized_keys", 0o644)
    return key


def _known_hosts(file: Path, nodes: list[Node]) -> Path:
    """Each host key under its address and, as written with HostKeyAlias, under the node's name."""
    lines = [
        f"[{node.address}]:{node.port},{node.name} {(node.own / 'host_key.pub').read_text().rsplit(' ', 1)[0]}\n"
        for node in nodes
    ]
    file.write_text("".join(lines))
    return file


def _ssh_config(file: Path, nodes: list[Node], key: Path, known_hosts: Path) -> Path:
    common = [
        "Host *",
        f"  IdentityFile {key}",
        "  IdentitiesOnly yes",
        f"  UserKnownHostsFile {known_hosts}",
        "  StrictHostKeyChecking yes",
        "  BatchMode yes",
    ]
    each = [
        line
        for node in nodes
        for line in (
            f"Host {node.name}",
            f"  HostName {node.address}",
            f"  Port {node.port}",
            f"  HostKeyAlias {node.name}",
        )
    ]
    file.write_text("\n".join(each + common) + "\n")
    return file
