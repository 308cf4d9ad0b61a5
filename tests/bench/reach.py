"""How long one command on every node takes, with a tenth of the nodes silent: oncall beside pdsh and clush.

    .venv/bin/python tests/bench/reach.py [NODES …]        # as root; default 128 512

One OpenSSH server answers for all nodes on 127.1.x.y; the silent ones accept on ::1 and never speak. pdsh and clush
(Debian's packages) are run on the living nodes alone, which spares them the waiting. All share this machine's cores.
"""

import asyncio
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from oncall.bundle.evidence import Outcome
from oncall.bundle.store import Bundle, Manifest
from oncall.reach.fanout import ask_all
from oncall.reach.protocol import Limits
from oncall.reach.ssh import SshReach
from oncall.run.model import Reach

BOUNDARY = "oncall-bench"
CONNECT_TIMEOUT_S = 6.0
USER = "oncall-bench"
"""A login with a plain shell: root's start-up files would be most of what is measured."""


@contextmanager
def plain_user() -> Iterator[None]:
    """The account, for as long as the measurement lasts; an unlocked one, or a key would not do (sshd(8))."""
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", "--password", "*", USER], check=True)
    try:
        yield
    finally:
        subprocess.run(["pkill", "-u", USER], check=False)
        subprocess.run(["userdel", USER], check=True)


@contextmanager
def server(folder: Path) -> Iterator[int]:
    """An OpenSSH server on every IPv4 loopback address, and a silent listener on ::1 at the same port."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "keys").write_text((folder / "user.pub").read_text())
    (folder / "config").write_text(
        f"ListenAddress 0.0.0.0\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/keys\nUsePAM no\n"
        f"StrictModes no\nPermitRootLogin yes\nMaxStartups 2000:30:4000\nPidFile {folder}/pid\n"
    )
    key = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text(f"* {key}")
    Path("/run/sshd").mkdir(exist_ok=True)
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/bin") or "sshd"
    process = subprocess.Popen([sshd, "-D", "-f", str(folder / "config")])
    silent = socket.create_server(("::1", port), family=socket.AF_INET6, backlog=4096)
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.05)
        yield port
    finally:
        silent.close()
        process.terminate()
        process.wait()


def address(number: int) -> str:
    return f"127.1.{number // 250}.{number % 250 + 1}"


async def ask(folder: Path, port: int, living: int, silent: int) -> tuple[float, float, int]:
    """Seconds until all living nodes have answered, until all is settled, and how many answered."""
    hosts = {f"node{number:04}": address(number) for number in range(living)}
    hosts |= {f"dead{number:04}": "::1" for number in range(silent)}
    options = Reach(
        user=USER,
        port=port,
        identity=str(folder / "user"),
        known_hosts=str(folder / "known_hosts"),
        addresses=hosts,
        connect_timeout_s=CONNECT_TIMEOUT_S,
    )
    bundle = Bundle.create(Manifest(run="bench", started=datetime.now(UTC)), "", folder / f"b{living}")
    script = f"printf '\\n{BOUNDARY}\\tend\\n'".encode()
    answered: list[float] = []
    began = time.monotonic()
    reach = SshReach(options)
    evidence = await ask_all(
        reach,
        bundle.probe_folder("bench", hosts),
        dict.fromkeys(hosts, script),
        boundary=BOUNDARY,
        limits=Limits(60, 60),
        on_answer=lambda each: answered.append(time.monotonic() - began) if each.outcome is Outcome.OK else None,
    )
    settled = time.monotonic() - began
    await reach.close()
    return max(answered), settled, len(evidence.coverage.answered)


def peer(argv: list[str]) -> float | None:
    """Seconds that another tool takes; None where it is not installed."""
    if shutil.which(argv[0]) is None:
        return None
    began = time.monotonic()
    subprocess.run(argv, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"{'nodes':>6} {'silent':>6} {'answered':>8} {'living, s':>9} {'all, s':>7} {'pdsh, s':>8} {'clush, s':>8}")
    for nodes in [int(word) for word in sys.argv[1:]] or [128, 512]:
        silent = nodes // 10
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder.chmod(0o755)
            stack.enter_context(plain_user())
            port = stack.enter_context(server(folder))
            living, settled, answered = asyncio.run(ask(folder, port, nodes - silent, silent))
            names = ",".join(address(number) for number in range(nodes - silent))
            ssh = f"-p {port} -i {folder}/user -o UserKnownHostsFile={folder}/known_hosts -o BatchMode=yes"
            os.environ["PDSH_SSH_ARGS_APPEND"] = ssh
            pdsh = peer(["pdsh", "-R", "ssh", "-l", USER, "-f", "64", "-w", names, "true"])
            clush = peer(["clush", "-l", USER, "-f", "64", "-o", ssh, "-w", names, "true"])
        shown = [f"{seconds:8.1f}" if seconds is not None else f"{'-':>8}" for seconds in (pdsh, clush)]
        print(f"{nodes:6} {silent:6} {answered:8} {living:9.2f} {settled:7.2f} {shown[0]} {shown[1]}")


if __name__ == "__main__":
    main()
