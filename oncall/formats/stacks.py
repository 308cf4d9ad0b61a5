"""Stack dumps of a process, whatever tool took them: frames, threads, processes."""

import re
import sys
from dataclasses import dataclass

_LIBRARIES = frozenset(
    {"accelerate", "apex", "datasets", "deepspeed", "fsspec", "lightning", "megatron", "numpy", "pandas", "pyarrow"}
    | {"pytorch_lightning", "torch", "torchdata", "torchtitan", "torchvision", "tqdm", "transformer_engine"}
    | {"transformers", "triton", "wandb"}
)
"""Packages of the training stack beyond Python's own, by the first part of the short file name that py-spy prints."""

_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python3\.\d+/(?!.*/)")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. `file` is as the tool shortened it; `line` None when unknown; `native` for C/C++."""

    func: str
    file: str
    line: int | None
    native: bool
    path: str | None = None

    def __str__(self) -> str:
        return f"{self.func} ({self.file}:{self.line})" if self.line is not None else f"{self.func} ({self.file})"

    @property
    def leaf(self) -> str:
        """The function's own name: py-spy 0.4.3 may print `Queue.get` or `outer.<locals>.inner`, older ones the end."""
        return self.func if self.native else self.func.rpartition(".")[2]

    @property
    def is_user(self) -> bool:
        """Whether this is the job's own Python, not that of a library, and neither native nor generated."""
        if self.native or self.file.startswith("<") or (self.path and _INSTALLED.search(self.path)):
            return False
        head = self.file.lstrip("/").split("/")[0].removesuffix(".py")
        return head not in _LIBRARIES and head not in sys.stdlib_module_names


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread, `frames` innermost first.

    `tid` is the operating system's id and `thread_id` the one of pthreads; either may be unknown. `status` is py-spy's
    word: active, idle, with `+gil` when it held the interpreter lock; empty where the tool tells none. `line` is where
    a text dump names it, 1-based.
    """

    tid: int | None
    thread_id: int | None
    name: str | None
    status: str
    gil: bool
    frames: tuple[Frame, ...]
    line: int | None = None

    @property
    def idle(self) -> bool:
        """Whether the kernel had it waiting rather than on a CPU."""
        return self.status.startswith("idle")

    @property
    def user_frame(self) -> Frame | None:
        """The innermost frame of the job's own code: where an engineer would look first."""
        return next((frame for frame in self.frames if frame.is_user), None)


@dataclass(frozen=True, slots=True)
class StackDump:
    """All threads of one process at one moment; `first_line` to `last_line` is its part of the file, 1-based."""

    pid: int
    parent_pid: int | None
    cmdline: str | None
    python: str | None
    exe: str | None
    threads: tuple[Thread, ...]
    first_line: int
    last_line: int

    @property
    def main_thread(self) -> Thread | None:
        """The thread named MainThread, or whose id is the process id; None when no thread was seen."""
        for thread in self.threads:
            if thread.name == "MainThread" or thread.tid == self.pid:
                return thread
        return None
