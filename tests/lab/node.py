"""One node of the lab: a Linux namespace with its own processes, host name, files, kernel log and OpenSSH server."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from .ports import START_S
from .process import Process, processes_of

TRAINER_UID = 4242
"""Owner of the job and of every login but root; free on Debian, where the first ordinary account is 1000."""

NAMESPACE = ["setpriv", "--pdeathsig=KILL", "unshare", "--kill-child", "--pid", "--mount", "--uts", "--mount-proc"]

SSHD_CONFIG = """\
ListenAddress {address}:{port}
HostKey {own}/host_key
AuthorizedKeysFile {keys}/authorized_keys
PidFile {own}/sshd.pid
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 1000:30:2000
MaxSessions 100
PrintMotd no
SetEnv PATH={path}
Match User noisy
    Banner {own}/etc/banner
"""

# Debian's bash reads .bashrc for `ssh host command` too; sites print from it, to both streams.
NOISY_BASHRC = """\
echo "Loading modules: cuda/13.0 nccl/2.28 openmpi/5.0"
echo "bash: module: command not found" >&2
printf '\\033[1;33mMaintenance on Thursday 06:00 UTC\\033[0m\\n'
"""

# dmesg itself formats a saved raw log, so every option works as it does on the kernel's own buffer.
DMESG = """\
#!/bin/sh
if [ -e {own}/kernel_log_restricted ] && [ "$(id -u)" != 0 ]; then
    echo "dmesg: read kernel buffer failed: Operation not permitted" >&2
    exit 1
fi
exec {own}/bin/dmesg.real --file {own}/kernel.log "$@"
"""

SUDOERS = """\
Defaults env_reset, !secure_path
root ALL=(ALL:ALL) ALL
"""

JOURNALCTL = """\
#!/bin/sh
echo "No journal files were found." >&2
exit 1
"""


@dataclass
class Node:
    """A running node; `own` holds its files as seen from outside, `shared` is where every node sees its own `work`.

    `init` is the host's process id of the namespace's PID 1. All other process ids are those seen inside.
    """

    name: str
    address: str
    port: int
    own: Path
    shared: Path
    training: Path
    path: str
    init: int
    _unshare: "subprocess.Popen[str]" = field(repr=False)
    _servers: list["subprocess.Popen[bytes]"] = field(default_factory=list, repr=False)

    def inside(self, path: Path) -> Path:
        """Where a file under `shared` of this node lies on the host."""
        return self.own / "work" / path.relative_to(self.shared)

    def popen(
        self, argv: list[str], *, root: bool = False, env: dict[str, str] | None = None, output: IO[bytes] | None = None
    ) -> "subprocess.Popen[bytes]":
        """Start a command inside, as the trainer unless `root`, with nothing but a login's environment and `env`."""
        user = [] if root else [f"--setuid={TRAINER_UID}", f"--setgid={TRAINER_UID}"]
        enter = ["nsenter", f"--target={self.init}", "--mount", "--uts", "--pid", f"--wd={self.shared}", *user, "--"]
        return subprocess.Popen(
            enter + argv,
            env=self.login_environment(root=root) | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def login_environment(self, *, root: bool = False) -> dict[str, str]:
        """What a login of the trainer, or of root, finds."""
        home, login = ("/root", "root") if root else ("/home/trainer", "trainer")
        return {"PATH": self.path, "HOME": home, "USER": login, "LANG": "C.UTF-8"}

    def run(self, argv: list[str], *, root: bool = False, timeout: float = START_S) -> str:
        """What a command inside printed; CalledProcessError with its output when it failed."""
        process = self.popen(argv, root=root)
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, argv, output)
        return output.decode()

    def processes(self) -> list[Process]:
        """Every process of the node."""
        return processes_of(self.init)

    def append_kernel_log(self, message: str, *, level: int = 3, ago_s: float = 0.0) -> None:
        """Add a line to the node's kernel log, stamped now or so long ago; `level` 3 is KERN_ERR."""
        uptime = time.clock_gettime(time.CLOCK_MONOTONIC) - ago_s
        with (self.own / "kernel.log").open("a") as log:
            log.write(f"<{level}>[{uptime:12.6f}] {message}\n")

    def restrict_kernel_log(self) -> None:
        """Only root may read the kernel log, as with kernel.dmesg_restrict = 1."""
        (self.own / "kernel_log_restricted").touch()

    def start_ssh(self) -> None:
        """Start the server, or start it again after `refuse_ssh`; returns when it accepts connections."""
        self.run(["/usr/sbin/sshd", "-f", str(self.own / "sshd_config"), "-E", str(self.own / "sshd.log")], root=True)
        deadline = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection((self.address, self.port), timeout=1).close()
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                return

    def refuse_ssh(self) -> None:
        """Stop the server with its sessions: a connection is refused from now on."""
        for process in self._ssh_processes():
            process.end()

    def go_silent(self) -> None:
        """Freeze the server with its sessions: the kernel still accepts connections, and nothing is ever said."""
        for process in self._ssh_processes():
            process.send(signal.SIGSTOP)

    def speak_again(self) -> None:
        """Undo `go_silent`."""
        for process in self._ssh_processes():
            process.send(signal.SIGCONT)

    def hang_commands(self) -> None:
        """Let logins succeed but no command ever answer, as on a node whose home directory hangs.

        The server runs a user's ~/.ssh/rc before the command (sshd(8), OpenSSH 9.2), and this one never ends.
        """
        for user in ("trainer", "noisy"):
            rc = self.own / "home" / user / ".ssh" / "rc"
            rc.parent.mkdir(exist_ok=True)
            rc.write_text("exec sleep 86400\n")

    def hang_mount(self, folder: Path) -> None:
        """Mount a file system that never answers on a folder: whoever looks into it is in state D until killed."""
        server = self.popen([sys.executable, str(self.training.parent / "hung_mount.py"), str(folder)], root=True)
        self._servers.append(server)
        assert server.stdout
        if server.stdout.readline() != b"mounted\n":
            raise RuntimeError(f"{self.name}: cannot mount on {folder}")

    def stop(self) -> None:
        """End the node: its PID 1 dies, and with it every process and mount of the namespace."""
        os.kill(self.init, signal.SIGKILL)
        self._unshare.wait()
        if self._unshare.stdout:
            self._unshare.stdout.close()
        for server in self._servers:
            server.communicate()

    def _ssh_processes(self) -> list[Process]:
        return [process for process in self.processes() if process.name == "sshd"]


def start_node(name: str, address: str, port: int, *, lab: Path, shared: Path, hosts: str, sudo: bool) -> Node:
    """Start a node under `lab` and its OpenSSH server; `hosts` is the node's /etc/hosts.

    Needs root. The node ends with the thread that started it, however that ends.
    """
    own = lab / name
    path = f"{lab}/bin:/usr/local/bin:/usr/bin:/bin"
    _write_files(own, hosts, sudo)
    (own / "sshd_config").write_text(
        SSHD_CONFIG.format(address=address, port=port, own=own, keys=lab / "keys", path=path)
    )
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", own / "host_key", "-C", name], check=True)
    prefixes = sorted({sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parents[1])})
    with (own / "node.log").open("w") as log:
        unshare = subprocess.Popen(
            [*NAMESPACE, str(lab / "node.sh"), name, str(own), str(shared), *prefixes],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert unshare.stdout
    if unshare.stdout.readline() != "ready\n":
        unshare.kill()
        unshare.wait()
        raise RuntimeError(f"{name}: the namespace did not come up: {(own / 'node.log').read_text()}")
    init = int(Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children").read_text())
    node = Node(name, address, port, own, shared, lab / "training", path, init, unshare)
    try:
        node.start_ssh()
    except BaseException:
        node.stop()
        raise
    return node


def _write_files(own: Path, hosts: str, sudo: bool) -> None:
    for folder in ("work", "etc", "bin", "home/trainer", "home/noisy"):
        (own / folder).mkdir(parents=True)
    for folder in ("work", "home/trainer", "home/noisy"):
        os.chown(own / folder, TRAINER_UID, TRAINER_UID)
    _write_accounts(own / "etc")
    (own / "etc/hosts").write_text(hosts)
    (own / "etc/sudoers").write_text(SUDOERS + ("trainer ALL=(ALL:ALL) NOPASSWD: ALL\n" if sudo else ""))
    (own / "etc/sudoers").chmod(0o440)
    (own / "etc/banner").write_text("*** Authorised use only. All activity is logged. ***\n")
    (own / "home/noisy/.bashrc").write_text(NOISY_BASHRC)
    # dmesg cannot map an empty file, and no real log is empty.
    (own / "kernel.log").write_text("<5>[    0.000000] Linux version 6.1.0 (lab) #1 SMP\n")
    shutil.copy2("/usr/bin/dmesg", own / "bin/dmesg.real")
    for name, text in {"dmesg": DMESG, "journalctl": JOURNALCTL}.items():
        (own / "bin" / name).write_text(text.format(own=own))
        (own / "bin" / name).chmod(0o755)


def _write_accounts(etc: Path) -> None:
    """The machine's accounts plus `trainer` and `noisy`: one uid, so both may look at the job; none is locked."""
    uid = TRAINER_UID
    names = ("root", "trainer", "noisy")
    lines = {file: Path("/etc", file).read_text().splitlines() for file in ("passwd", "group", "shadow")}
    lines = {file: [line for line in text if line.split(":")[0] not in names] for file, text in lines.items()}
    lines["passwd"] = [
        "root:x:0:0:root:/root:/bin/sh",
        *lines["passwd"],
        f"trainer:x:{uid}:{uid}::/home/trainer:/bin/sh",
        f"noisy:x:{uid}:{uid}::/home/noisy:/bin/bash",
    ]
    lines["group"] = ["root:x:0:", *lines["group"], f"trainer:x:{uid}:"]
    lines["shadow"] += [f"{name}:*:20000:0:99999:7:::" for name in names]
    for file, text in lines.items():
        (etc / file).write_text("\n".join(text) + "\n")
    (etc / "shadow").chmod(0o640)
