"""Writes a rank's Flight Recorder dump when its step stops moving, since gloo, unlike NCCL, has no watchdog to do so.

Paths come from the variables that ProcessGroupNCCL reads (PyTorch 2.13): TORCH_FR_DUMP_TEMP_FILE and
TORCH_NCCL_DEBUG_INFO_PIPE_FILE, each a prefix to which the rank is added.
"""

import os
import sys
import threading
import time
import types
from pathlib import Path

import torch._C._distributed_c10d as c10d
from watchdog import Watchdog

POLL_SECONDS = 0.1


class NoCompiledCode:
    """Stands in for torch._inductor.codecache.PyCodeCache, which the recorder asks about each frame it writes.

    The first dump would import all of torch._inductor for it, a second of each rank's processor time (PyTorch 2.13).
    """

    @staticmethod
    def stack_frames_for_code(path: str, line: int) -> None:
        """No frame is of code made by torch.compile."""


class StallWatch:
    """Dumps once when no step ended for `stall_seconds`, and each time something is written to the rank's pipe.

    A thread does it: a Python signal handler would not run while the main thread waits inside gloo.
    """

    def __init__(self, rank: int, stall_seconds: float, watchdog: Watchdog | None) -> None:
        self._target = Path(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{rank}")
        self._pipe = Path(f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{rank}.pipe")
        self._stall_seconds = stall_seconds
        self._watchdog = watchdog
        self._last_step = time.monotonic()
        self._pipe.unlink(missing_ok=True)
        os.mkfifo(self._pipe)
        threading.Thread(target=self._watch, name="stall-watch", daemon=True).start()

    def step_ended(self) -> None:
        self._last_step = time.monotonic()

    def _watch(self) -> None:
        asked = os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK)
        stalled = False
        while True:
            time.sleep(POLL_SECONDS)
            if os.read(asked, 4096):
                self._write(_trace())
            if not stalled and time.monotonic() - self._last_step > self._stall_seconds:
                stalled = True
                self._report()

    def _report(self) -> None:
        trace = _trace()
        if self._watchdog:
            self._watchdog.report_timeout(trace)
        self._write(trace)
        if self._watchdog:
            self._watchdog.report_dump(self._target)

    def _write(self, trace: bytes) -> None:
        part = self._target.with_name(self._target.name + ".part")
        part.write_bytes(trace)
        part.replace(self._target)


inductor = types.ModuleType("torch._inductor")
inductor.codecache = types.SimpleNamespace(PyCodeCache=NoCompiledCode)  # type: ignore[attr-defined]
sys.modules[inductor.__name__] = inductor


def _trace() -> bytes:
    """The ring as a pickle, with stacks and with the collectives that ended."""
    trace: bytes = c10d._dump_fr_trace(True, True, False)  # type: ignore[attr-defined]
    return trace
