"""What the console's other process does: it walks one triage, takes orders from a pipe, and tells into it."""

import asyncio
import os
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from oncall.bundle.store import Bundle
from oncall.console.conductor import Conductor
from oncall.console.publishing import cause_of
from oncall.console.snapshot import Snapshot

_PATIENCE_S = 1.0


def main() -> None:
    """Walk the triage that the pipe of the first argument names, until it is told to leave or the console is gone."""
    with Connection(int(sys.argv[1])) as console:
        path, first, deadline_s = console.recv()
        with suppress(asyncio.CancelledError):
            asyncio.run(_conduct(console, path, first, deadline_s))


async def _conduct(console: Connection, path: Path, first: Snapshot, deadline_s: float | None) -> None:
    """Conduct the triage; what ends it early is told in words, at once: threads that hang may hold up the end."""
    try:
        conductor = Conductor(Bundle.open(path), first, console.send, deadline_s=deadline_s)
        conducting = asyncio.create_task(conductor.run(), name="conductor")
        orders = (console, conductor, conducting, asyncio.get_running_loop())
        threading.Thread(target=_take_orders, args=orders, name="orders", daemon=True).start()
        await conducting
    except Exception as error:
        console.send(cause_of(error))


def _take_orders(
    console: Connection, conductor: Conductor, conducting: "asyncio.Task[None]", loop: asyncio.AbstractEventLoop
) -> None:
    # RuntimeError: the loop has ended before.
    with suppress(EOFError, OSError, RuntimeError):
        while (order := console.recv()) is not None:
            loop.call_soon_threadsafe(conductor.give, order)
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(conducting.cancel)
    # The nodes are let go meanwhile. A reading that is under way holds up the loop, and is not waited for.
    time.sleep(_PATIENCE_S)
    os._exit(0)


if __name__ == "__main__":
    main()
