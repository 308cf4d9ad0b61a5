"""What the console's other process does: it walks one triage, takes orders from a pipe, and tells into it."""

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from oncall.bundle.store import Bundle
from oncall.console.conductor import Conductor
from oncall.console.snapshot import Snapshot
from oncall.errors import OncallError

_NICE = 5
"""The screen goes first where cores are few."""


def main() -> None:
    """Walk the triage that the pipe of the first argument names, until it is told to leave or the console is gone."""
    os.nice(_NICE)
    with Connection(int(sys.argv[1])) as console:
        path, first, deadline_s = console.recv()
        try:
            asyncio.run(_conduct(console, path, first, deadline_s))
        except asyncio.CancelledError:
            pass
        except Exception as error:
            console.send(_with_problem(first, error))


async def _conduct(console: Connection, path: Path, first: Snapshot, deadline_s: float | None) -> None:
    conductor = Conductor(Bundle.open(path), first, console.send, deadline_s=deadline_s)
    conducting = asyncio.create_task(conductor.run(), name="conductor")
    loop = asyncio.get_running_loop()

    def take_order() -> None:
        order = None
        with suppress(EOFError, OSError):
            order = console.recv()
        if order is None:
            loop.remove_reader(console.fileno())
            conducting.cancel()
        else:
            conductor.give(order)

    loop.add_reader(console.fileno(), take_order)
    await conducting


def _with_problem(snapshot: Snapshot, error: Exception) -> Snapshot:
    cause = error.cause if isinstance(error, OncallError) else f"{type(error).__name__}: {error}"
    return replace(snapshot, problem=cause)


if __name__ == "__main__":
    main()
