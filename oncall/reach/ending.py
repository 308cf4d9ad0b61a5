"""Ends a program of this machine that has had its time, with all that it started."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GRACE_S = 1.0
"""How long a script has to take its temporary folder along once it was asked to end."""
_REAP_S = 2.0
"""A child that left the session may hold a pipe open; it is not waited for longer."""


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask the whole session that a process leads to end, then kill what is left of it.

    What it still says is read and let go: asyncio waits for the ends of its pipes too.
    """
    try:
        _tell(process, signal.SIGTERM)
        await _gone(process, _GRACE_S)
    finally:
        _tell(process, signal.SIGKILL)
        await _gone(process, _REAP_S)


def _tell(process: asyncio.subprocess.Process, sign: signal.Signals) -> None:
    """Send a signal to the session; a child of timeout(1) has a process group of its own."""
    for pid in _session(process.pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, sign)
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)


def _session(leader: int) -> Iterator[int]:
    """Those in the session of this process (proc(5), field 6 of stat); nobody where there is no /proc."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The second field is the program's name in parentheses, and may hold any character.
            if int(stat.read_bytes().rpartition(b")")[2].split()[3]) == leader:
                yield int(stat.parent.name)


async def _gone(process: asyncio.subprocess.Process, patience_s: float) -> None:
    pipes = [_let_go(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None]
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await asyncio.gather(*pipes, process.wait())


async def _let_go(pipe: asyncio.StreamReader) -> None:
    while await pipe.read(65_536):
        pass
