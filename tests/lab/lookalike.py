"""Idle processes that look like the ranks of a job: each with its environment, its stack and its state.

usage: lookalike.py RANKS.json, a list of {"env": {...}, "frames": [[function, file], ...] innermost first,
"state": "S" | "T" | "D" | "R", "holds": FILE or null, "writes": bool}. Says `ready` once all are as told, and waits.
Without "RANK" in its environment such a process is some other program of the host.
"""

import ctypes
import functools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ALONE = "--alone"


def stand(frames: list[list[str]], block: Callable[[], object]) -> None:
    """Call down through functions of these names in files of these names, say so, and block in the innermost."""
    calls: tuple[Callable[[], object], ...] = (functools.partial(print, "ready", flush=True), block)
    for name, file in frames or [["main", "main.py"]]:
        scope: dict[str, Any] = {}
        exec(compile(f"def {name}(calls):\n    for call in calls:\n        call()\n", file, "exec"), scope)
        calls = (functools.partial(scope[name], calls),)
    calls[0]()


def wait_in_kernel() -> None:
    """vfork(2) suspends the caller, uninterruptible, until its child ends or runs another program."""
    if ctypes.PyDLL(None).vfork() == 0:
        signal.pause()


def spin() -> None:
    while True:
        pass


def write_on(file: Any) -> None:
    while True:
        file.write(b"x" * 4096)
        time.sleep(0.05)


def be(told: dict[str, Any]) -> None:
    if told["holds"]:
        file = open(told["holds"], "ab", buffering=0)  # noqa: SIM115 - held open for as long as the process lives
        file.write(b"x" * 4096)
        if told["writes"]:
            threading.Thread(target=write_on, args=[file], daemon=True).start()
    stand(told["frames"], {"D": wait_in_kernel, "R": spin}.get(told["state"], signal.pause))


def start(told: dict[str, Any]) -> None:
    """Start one, and return when it is in its state."""
    out, into = os.pipe()
    argv = [sys.executable, "-I", "-S", __file__, ALONE, json.dumps(told)]
    pid = os.posix_spawn(argv[0], argv, told["env"], file_actions=[(os.POSIX_SPAWN_DUP2, into, 1)])
    os.close(into)
    with open(out) as said:
        if said.readline() != "ready\n":
            raise RuntimeError(f"{told} did not start")
    if told["state"] == "T":
        os.kill(pid, signal.SIGSTOP)
    while told["state"] not in {"S", "R", Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]}:
        time.sleep(0.002)


if __name__ == "__main__":
    if sys.argv[1] == ALONE:
        be(json.loads(sys.argv[2]))
    else:
        for each in json.loads(Path(sys.argv[1]).read_text()):
            start(each)
        print("ready", flush=True)
        signal.pause()
