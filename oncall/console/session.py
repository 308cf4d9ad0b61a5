"""The process in which a triage is walked, so that reading the evidence of thousands of ranks never holds up a key."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, TypeAlias

from oncall.console.snapshot import Snapshot

if TYPE_CHECKING:
    from oncall.bundle.store import Bundle
    from oncall.console.orders import Order
    from oncall.console.raw_text import RawText

Told: TypeAlias = "Snapshot | RawText"

_WALKER = "oncall.console.walking"
_PATIENCE_S = 1.5
"""Longer than the process takes to leave by itself, whatever it reads."""
_TURN_S = 0.0005
"""How long a key may wait for the thread that unpacks what was told; Python's own 5 ms add up over one repaint."""


class Session:
    """One triage in a process of its own. `tell` is called from a thread that only listens to that process."""

    def __init__(
        self, bundle: "Bundle", first: Snapshot, tell: Callable[[Told], None], *, deadline_s: float | None = None
    ) -> None:
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
            self._thread.join()

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
        ours, theirs = Pipe()
        with ours:
            with theirs:
                self._process = _begun(theirs)
            # Until the process ends, which closes its side of the pipe.
            with suppress(EOFError, OSError):
                ours.send(self._task)
                self._open(ours)
                while True:
                    self._hear(ours.recv())
            exit_code = self._process.wait()
        if not self._left:
            self._hear(replace(self._newest, problem=f"the walk's process ended early, exit code {exit_code}"))

    def _open(self, connection: Connection) -> None:
        with self._lock:
            self._connection = connection
            for order in self._waiting:
                self._put(connection, order)

    def _hear(self, told: Told) -> None:
        if isinstance(told, Snapshot):
            self._newest = told
        self._tell(told)


def _begun(connection: Connection) -> subprocess.Popen[bytes]:
    """The process, with the other end of its pipe; in a group of its own, so that a lost terminal leaves it time."""
    number = connection.fileno()
    return subprocess.Popen(
        [sys.executable, "-P", "-m", _WALKER, str(number)],
        pass_fds=(number,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
