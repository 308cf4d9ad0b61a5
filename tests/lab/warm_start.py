"""Starts torchrun on a node by forking a program that has imported torch, see training/warm_torchrun.py."""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

from .node import TRAINER_UID, Node

PROGRAM = Path(__file__).with_name("training") / "warm_torchrun.py"
# What torch reads while it is imported.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROGRAM.parent)}
START_S = 60.0


class WarmAgent:
    """What a job needs of subprocess.Popen, for a process that another one forked."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._ended = False

    def poll(self) -> bool | None:
        """Whether it has ended, None while it runs."""
        if not self._ended and select.select([self._handle], [], [], 0)[0]:
            self._end()
        return self._ended or None

    def kill(self) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def wait(self) -> None:
        """Return when it has ended."""
        if not self._ended:
            select.select([self._handle], [], [])
            self._end()

    def _end(self) -> None:
        self._ended = True
        os.close(self._handle)


def start_warm(node: Node, argv: list[str], *, env: dict[str, str], output: IO[bytes]) -> WarmAgent:
    """Start torchrun on a node as `Node.popen` would, as the trainer."""
    told = {
        "init": node.init,
        "uid": TRAINER_UID,
        "folder": str(node.shared),
        "args": argv,
        "env": node.login_environment() | env,
    }
    server = _server()
    socket.send_fds(server, [json.dumps(told).encode()], [output.fileno()])
    _, handles, _, _ = socket.recv_fds(server, 64, 1)
    return WarmAgent(handles[0])


@functools.cache
def _server() -> socket.socket:
    """The one of this program, which it ends with."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(START_S)
    argv = [sys.executable, str(PROGRAM), str(theirs.fileno())]
    server = subprocess.Popen(argv, env=os.environ | ENVIRONMENT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours
