"""torchrun on the lab's nodes, forked from one interpreter that has imported torch: a job starts much sooner.

    warm_torchrun.py SOCKET    # a descriptor; a request is a message with a JSON object and a file for the output

It forks an agent into a node for each request and answers with a pidfd of it; it ends when the socket's other end is
closed. The agent's ranks are forked too. Only the start differs from torchrun: in /proc an agent or a rank is as if
the command had been started, and a rank is a child of its agent, in a session of its own.
"""

import ctypes
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch.distributed.elastic.rendezvous.dynamic_rendezvous as rendezvous
import torch.distributed.run
import torch.utils.data  # for the ranks
from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

# linux/prctl.h
PR_SET_DUMPABLE = 4
PR_SET_MM = 35
PR_SET_MM_MAP = 14
PR_SET_CHILD_SUBREAPER = 36

POLL_SECONDS = 0.02

libc = ctypes.CDLL(None, use_errno=True)
libc.malloc.restype = ctypes.c_void_p
libc.sbrk.restype = ctypes.c_void_p


def fork_agents(requests: socket.socket) -> None:
    """Fork an agent for each request until no more can come; returns in the agent alone, ready to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, outputs, _, _ = socket.recv_fds(requests, 1 << 20, 1)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become_agent(json.loads(request), outputs[0], requests)
            return
        os.close(outputs[0])


def become_agent(request: dict[str, Any], output: int, requests: socket.socket) -> None:
    """Fork the agent, in which alone this returns. This process waits for it: nobody in the node is its parent, and a
    namespace ends when all its processes have been waited for.
    """
    enter_node(request["init"])
    agent = os.fork()
    if agent:
        os.close(output)
        socket.send_fds(requests, [b"started"], [os.pidfd_open(agent)])
        os.waitpid(agent, 0)
        os._exit(0)
    requests.close()
    become_trainer(request["uid"], request["folder"])
    become(request, [output, os.dup(output)])
    sys.argv = request["args"][1:]


def enter_node(init: int) -> None:
    """Let this process see the node's files and its children be the node's; `init` is the node's PID 1."""
    namespaces = [os.open(f"/proc/{init}/ns/{name}", os.O_RDONLY) for name in ("uts", "pid", "mnt")]
    for namespace in namespaces:
        if libc.setns(namespace, 0):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(namespace)


def become_trainer(uid: int, folder: str) -> None:
    """As after a login and an exec: without root, in this folder, and open to the user's own debuggers."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    os.chdir(folder)
    libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)


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


def fork_ranks(requests: socket.socket) -> None:
    """Fork a rank for each request until the agent ends; returns in the rank alone, which is then ready to run."""
    while True:
        request, outputs, _, _ = socket.recv_fds(requests, 1 << 20, 2)
        if not request:
            os._exit(0)
        # The process between ends at once, which makes the rank a child of the agent, the nearest subreaper.
        between = os.fork()
        if between == 0:
            rank = os.fork()
            if rank == 0:
                requests.close()
                told = json.loads(request)
                become(told, outputs)
                sys.argv = told["args"][2:]  # without `python -u`
                return
            requests.send(str(rank).encode())
            os._exit(0)
        os.waitpid(between, 0)
        requests.send(b"adopted")
        for output in outputs:
            os.close(output)


def become(request: dict[str, Any], outputs: list[int]) -> None:
    """Take on what an exec would give: session, output files, environment, and what /proc shows."""
    os.setsid()
    for target, output in enumerate(outputs, start=1):
        os.dup2(output, target)
        os.close(output)
    os.environ.clear()
    os.environ.update(request["env"])
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


def run_agent() -> None:
    """torchrun by `sys.argv`; returns in a rank alone, which is then ready to run."""
    agent_end, forker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        agent_end.close()
        fork_ranks(forker_end)
        return
    forker_end.close()

    def ask_for_rank(handler: SubprocessHandler, args: tuple[str, ...], env: dict[str, str]) -> ForkedRank:
        """Stands in for SubprocessHandler._popen (PyTorch 2.13)."""
        outputs = [file.fileno() for file in (handler._stdout, handler._stderr) if file]
        socket.send_fds(agent_end, [json.dumps({"args": args, "env": env}).encode()], outputs)
        pid = int(agent_end.recv(64))
        agent_end.recv(64)  # the rank is a child of this process only now
        return ForkedRank(pid)

    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    SubprocessHandler._popen = ask_for_rank  # type: ignore[method-assign,assignment]
    join_at_once()
    torch.distributed.run.main()
    sys.exit()


def join_at_once() -> None:
    """Let the agents find one another without the second that torchrun lets pass (PyTorch 2.13)."""
    rendezvous._delay = lambda seconds: time.sleep(POLL_SECONDS)  # type: ignore[attr-defined]
    rendezvous._BackendRendezvousStateHolder = functools.partial(  # type: ignore[assignment,misc]
        rendezvous._BackendRendezvousStateHolder, cache_duration=0
    )


if __name__ == "__main__":
    gc.freeze()  # a collection in a child would copy all that torch has made
    fork_agents(socket.socket(fileno=int(sys.argv[1])))
    run_agent()
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
