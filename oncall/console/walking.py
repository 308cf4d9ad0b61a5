"""What the console's other process does: it walks one triage, takes orders from a pipe, and tells into it."""

import asyncio
import os
import sys
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from oncall.bundle.store import Bundle
from oncall.console.conductor import Conductor
from oncall.console.snapshot import Snapshot
from oncall.errors import OncallError

_PATIENCE_S = 1.0


def main() -> None:
    """Walk the triage that the pipe of the first argument names, until it is told to leave or the console is gone."""
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

    def take_orders() -> None:
        try:
            while (order := console.recv()) is not None:
                loop.call_soon_threadsafe(conductor.give, order)
        except (EOFError, OSError):
            pass
        loop.call_soon_threadsafe(conducting.cancel)
        # The nodes are let go meanwhile. A reading that is under way holds up the loop, and is not waited for.
        time.sleep(_PATIENCE_S)
        os._exit(0)

    threading.Thread(target=take_orders, name="orders", daemon=True).start()
    await conducting


def _with_problem(snapshot: Snapshot, error: Exception) -> Snapshot:
    cause = error.cause if isinstance(error, OncallError) else f"{type(error).__name__}: {error}"
    return replace(snapshot, problem=cause)


if __name__ == "__main__":
    main()
