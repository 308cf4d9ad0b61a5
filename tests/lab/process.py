"""The processes of a node, read from the host's /proc."""

import ctypes
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

SYS_PIDFD_GETFD = 438
"""Linux 5.6, the same number on every architecture."""


@dataclass(frozen=True)
class Process:
    """A process of a node: `pid` is its id inside the node, `host_pid` and `host_parent` are ids on the host."""

    pid: int
    host_pid: int
    host_parent: int
    name: str
    state: str

    def environment(self) -> dict[str, str]:
        """The variables it was started with; empty for a zombie or one that ended meanwhile."""
        try:
            text = Path(f"/proc/{self.host_pid}/environ").read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return {}
        return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)

    def send(self, number: signal.Signals) -> None:
        """Signal it, unless it has ended meanwhile."""
        try:
            os.kill(self.host_pid, number)
        except ProcessLookupError:
            return

    def end(self) -> None:
        """Kill it, unless it has ended meanwhile, and return when it has: what it listened on is closed then."""
        try:
            handle = os.pidfd_open(self.host_pid)
        except ProcessLookupError:
            return
        self.send(signal.SIGKILL)
        select.select([handle], [], [])
        os.close(handle)

    def threads(self, prefix: str) -> list[int]:
        """The ids on the host of its threads whose name begins so."""
        tasks = Path(f"/proc/{self.host_pid}/task").iterdir()
        return [int(task.name) for task in tasks if (task / "comm").read_text().startswith(prefix)]

    def duplicate_sockets(self) -> list[int]:
        """Descriptors of our own for all its sockets, which keep its connections open when it ends; needs root."""
        libc = ctypes.CDLL(None, use_errno=True)
        entries = Path(f"/proc/{self.host_pid}/fd").iterdir()
        sockets = [int(entry.name) for entry in entries if os.readlink(entry).startswith("socket:")]
        handle = os.pidfd_open(self.host_pid)
        copies = [libc.syscall(SYS_PIDFD_GETFD, handle, socket, 0) for socket in sockets]
        os.close(handle)
        if -1 in copies:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        return copies


def processes_of(init: int) -> list[Process]:
    """Every process in the namespace of the process whose id on the host is `init`."""
    namespace = os.readlink(f"/proc/{init}/ns/pid")
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if os.readlink(folder / "ns/pid") != namespace:
                continue
            status = dict(
                line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line
            )
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or walled off from this root
        inner = int(status["NSpid"].split()[-1])
        found.append(Process(inner, int(folder.name), int(status["PPid"]), status["Name"], status["State"][0]))
    return found
