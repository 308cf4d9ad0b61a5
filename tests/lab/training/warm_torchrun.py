"""torchrun whose ranks are forked from an interpreter that has imported torch, which makes a job start much sooner.

Only the start of a process differs from torchrun. To the agent and in /proc a rank is as if `python -u train.py` had
been started: a child of the agent, in a session of its own, with that command line and environment.
"""

import ctypes
import json
import os
import runpy
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch.distributed.run
from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

# linux/prctl.h
PR_SET_MM = 35
PR_SET_MM_MAP = 14
PR_SET_CHILD_SUBREAPER = 36

libc = ctypes.CDLL(None, use_errno=True)
libc.malloc.restype = ctypes.c_void_p
libc.sbrk.restype = ctypes.c_void_p
agent_end, forker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class MemoryMap(ctypes.Structure):
    """struct prctl_mm_map of linux/prctl.h."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("start_code", "end_code", "start_data", "end_data", "start_brk", "brk")),
        *((name, ctypes.c_uint64) for name in ("start_stack", "arg_start", "arg_end", "env_start", "env_end", "auxv")),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    ]


class ForkedRank:
    """What the agent needs of subprocess.Popen, for a child that another process made for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._handle)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            select.select([self._handle], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"rank with pid {self.pid}", timeout or 0.0)
        return code


def ask_for_rank(handler: SubprocessHandler, args: tuple[str, ...], env: dict[str, str]) -> ForkedRank:
    """Stands in for SubprocessHandler._popen (PyTorch 2.13)."""
    outputs = [file.fileno() for file in (handler._stdout, handler._stderr) if file]
    socket.send_fds(agent_end, [json.dumps({"args": args, "env": env}).encode()], outputs)
    return ForkedRank(int(agent_end.recv(64)))


def fork_ranks() -> None:
    """Fork a rank for each request until the agent ends; returns in the rank alone, which is then ready to run."""
    while True:
        request, outputs, _, _ = socket.recv_fds(forker_end, 1 << 20, 2)
        if not request:
            os._exit(0)
        # The process between ends at once, which makes the rank a child of the agent, the nearest subreaper.
        between = os.fork()
        if between == 0:
            rank = os.fork()
            if rank == 0:
                forker_end.close()
                become_rank(json.loads(request), outputs)
                return
            forker_end.send(str(rank).encode())
            os._exit(0)
        os.waitpid(between, 0)
        for output in outputs:
            os.close(output)


def become_rank(request: dict[str, Any], outputs: list[int]) -> None:
    """Take on what an exec would give: session, output files, environment, arguments."""
    os.setsid()
    for target, output in enumerate(outputs, start=1):
        os.dup2(output, target)
        os.close(output)
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["args"][2:]
    show_in_proc(request["args"], request["env"])


def show_in_proc(args: list[str], env: dict[str, str]) -> None:
    """Let /proc/PID/cmdline and environ be these."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    # proc(5) counts the fields from 1; the rest of the line begins with the third.
    start_code, end_code, start_stack, start_data, end_data, start_brk = (
        int(fields[number - 3]) for number in (26, 27, 28, 45, 46, 47)
    )
    arg_start, arg_end = keep("".join(f"{arg}\0" for arg in args))
    env_start, env_end = keep("".join(f"{name}={value}\0" for name, value in env.items()))
    addresses = (start_code, end_code, start_data, end_data, start_brk, libc.sbrk(0), start_stack)
    no_file = 0xFFFFFFFF
    memory = MemoryMap(*addresses, arg_start, arg_end, env_start, env_end, 0, 0, no_file)
    if libc.prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(memory), ctypes.sizeof(memory), 0):
        raise OSError(ctypes.get_errno(), "prctl: PR_SET_MM_MAP")


def keep(text: str) -> tuple[int, int]:
    """Where a copy of the text begins and ends in memory; it is never freed, since /proc shows it until the end."""
    data = text.encode()
    start = libc.malloc(len(data))
    ctypes.memmove(start, data, len(data))
    return start, start + len(data)


if os.fork() == 0:
    agent_end.close()
    fork_ranks()
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    forker_end.close()
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    SubprocessHandler._popen = ask_for_rank  # type: ignore[method-assign,assignment]
    torch.distributed.run.main()
