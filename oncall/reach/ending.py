"""Ends a program of this machine that has had its time, with all that it started."""

import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

_GRACE_S = 1.0
"""How long a script has to take its temporary folder along once it was asked to end."""
_REAP_S = 2.0
"""A child that left the session may hold a pipe open; it is not waited for longer."""

_PROCESSES = Path("/proc")


async def end_session(leader: int, gone: Callable[[float], Awaitable[object]]) -> None:
    """Ask the whole session that a process leads to end, then kill what is left of it.

    `gone` waits for the end of the leader, for so many seconds at most.
    """
    try:
        _tell(leader, signal.SIGTERM)
        await gone(_GRACE_S)
    finally:
        _tell(leader, signal.SIGKILL)
        await gone(_REAP_S)


def _tell(leader: int, sign: signal.Signals) -> None:
    """Send a signal to the session; a child of timeout(1) has a process group of its own."""
    if not _PROCESSES.joinpath("self").exists():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, sign)
    for pid in _session(leader):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, sign)


def _session(leader: int) -> Iterator[int]:
    """Those in the session of this process (proc(5), field 6 of stat)."""
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError):
            # The second field is the program's name in parentheses, and may hold any character.
            if int(stat.read_bytes().rpartition(b")")[2].split()[3]) == leader:
                yield int(stat.parent.name)
