"""The process in which a triage is walked, so that reading the evidence of thousands of ranks never holds up a key."""

import os
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from io import FileIO
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING

from oncall.console.snapshot import Snapshot
from oncall.console.told import Listener, Told

if TYPE_CHECKING:
    from oncall.bundle.store import Bundle
    from oncall.console.orders import Order

_WALKER = "oncall.console.walking"
_PATIENCE_S = 1.5
"""Longer than the process takes to leave by itself, whatever it reads."""
_SAID_BYTES = 65_536
"""How much of its standard error is looked at: as much as a pipe holds (pipe(7))."""
_TURN_S = 0.0005
"""How long a key may wait for the thread that unpacks what was told; Python's own 5 ms add up over one repaint."""


class Session:
    """One triage in a process of its own. `tell` is called from a thread that only listens to that process."""

    def __init__(self, bundle: "Bundle", first: Snapshot, tell: Listener, *, deadline_s: float | None = None) -> None:
        self._task = (bundle.path, first, deadline_s)
        self._newest = first
        self._tell = tell
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._waiting: list[Order | None] = []
        self._lock = threading.Lock()
        self._left = False
        self._thread = threading.Thread(target=self._listen, name="triage", daemon=True)

    def start(self) -> None:
        """Begin the walk."""
        sys.setswitchinterval(_TURN_S)
        self._thread.start()

    def give(self, order: "Order") -> None:
        """Hand an order over; one given before the walk has begun is kept for it."""
        self._send(order)

    def stop(self) -> None:
        """End the walk; what was gathered is kept. Waits a moment for the nodes to be let go."""
        self._left = True
        self._send(None)
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        if self._thread.is_alive() and self._process is not None:
            self._process.kill()
            # Not for ever: a process that waits for a mount that is gone does not end even then.
            self._thread.join(_PATIENCE_S)

    def _send(self, order: "Order | None") -> None:
        with self._lock:
            if self._connection is None:
                self._waiting.append(order)
            else:
                self._put(self._connection, order)

    def _put(self, connection: Connection, order: "Order | None") -> None:
        # That the process has ended is told by the thread that listens to it.
        with suppress(OSError):
            connection.send(order)

    def _listen(self) -> None:
        try:
            problem = self._walked()
        except OSError as error:
            problem = f"the walk's process cannot be started: {error}"
        if problem is not None:
            self._hear(problem)

    def _walked(self) -> str | None:
        """Hear the process until it ends; returns why it ended, None where it left or told so itself."""
        with ExitStack() as stack:
            said, saying = map(stack.enter_context, _pipe_that_never_fills())
            ours, theirs = Pipe()
            stack.callback(self._close, ours)
            with theirs:
                self._process = _begun(theirs, saying)
            # Until the process ends, which closes its side of the pipe.
            with suppress(EOFError, OSError):
                ours.send(self._task)
                self._open(ours)
                while True:
                    self._hear(ours.recv())
            exit_code = self._process.wait()
            return f"the walk's process ended early, exit code {exit_code}{_last_line(said)}" if exit_code else None

    def _open(self, connection: Connection) -> None:
        with self._lock:
            self._connection = connection
            for order in self._waiting:
                self._put(connection, order)

    def _close(self, connection: Connection) -> None:
        # Never while an order is put into it: its number may be another file's by then.
        with self._lock:
            connection.close()

    def _hear(self, told: "Told | str") -> None:
        """Pass on what was told; words alone say why nothing more will come."""
        if self._left:
            return
        if isinstance(told, str):
            told = replace(self._newest, problem=told)
        if isinstance(told, Snapshot):
            self._newest = told
        self._tell(told)


def _begun(connection: Connection, error_stream: FileIO) -> subprocess.Popen[bytes]:
    """The process, with the other end of its pipe; in a group of its own, so that a lost terminal leaves it time."""
    number = connection.fileno()
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _WALKER, str(number)],
        pass_fds=(number,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=error_stream,
        process_group=0,
    )


def _pipe_that_never_fills() -> tuple[FileIO, FileIO]:
    """Where to read and where to write: what a full pipe does not take is lost, and nobody waits."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return FileIO(ends[0], "r"), FileIO(ends[1], "w")


def _last_line(said: FileIO) -> str:
    """The last line of what the process said, behind a colon; empty where it said nothing."""
    lines = (said.read(_SAID_BYTES) or b"").decode("utf-8", "replace").split("\n")
    return next((f": {line}" for line in reversed(lines) if line.strip()), "")
