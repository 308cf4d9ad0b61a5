"""Writes a rank's Flight Recorder dump when its step stops moving, since gloo, unlike NCCL, has no watchdog to do so.

Paths come from the variables that ProcessGroupNCCL reads (PyTorch 2.13): TORCH_FR_DUMP_TEMP_FILE and
TORCH_NCCL_DEBUG_INFO_PIPE_FILE, each a prefix to which the rank is added.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from torch._C._distributed_c10d import _dump_fr_trace

POLL_SECONDS = 0.1


class StallWatch:
    """Dumps once when no step ended for `stall_seconds`, and each time something is written to the rank's pipe.

    A thread does it: a Python signal handler would not run while the main thread waits inside gloo.
    """

    def __init__(self, rank: int, stall_seconds: float, on_stall: Callable[[bytes], None] | None) -> None:
        self._target = Path(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{rank}")
        self._pipe = Path(f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe")
        self._stall_seconds = stall_seconds
        self._on_stall = on_stall
        self._last_step = time.monotonic()
        self._stalled = False
        self._pipe.unlink(missing_ok=True)
        os.mkfifo(self._pipe)
        threading.Thread(target=self._watch, name="stall-watch", daemon=True).start()

    def step_ended(self) -> None:
        self._last_step = time.monotonic()

    def _watch(self) -> None:
        asked = os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK)
        while True:
            time.sleep(POLL_SECONDS)
            if os.read(asked, 4096):
                self._dump()
            if not self._stalled and time.monotonic() - self._last_step > self._stall_seconds:
                self._stalled = True
                trace = self._dump()
                if self._on_stall:
                    self._on_stall(trace)

    def _dump(self) -> bytes:
        trace: bytes = _dump_fr_trace(True, True, False)
        part = self._target.with_name(self._target.name + ".part")
        part.write_bytes(trace)
        part.replace(self._target)
        return trace
