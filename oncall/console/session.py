"""The thread in which a triage is walked, so that reading evidence never holds up a key."""

import asyncio
import gc
import importlib
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from oncall.console.snapshot import Snapshot
from oncall.errors import OncallError

if TYPE_CHECKING:
    from oncall.bundle.store import Bundle
    from oncall.console.conductor import Conductor
    from oncall.console.orders import Order
    from oncall.console.raw_text import RawText

_COLLECTOR = (2_000, 10, 100)
"""Seldom a full collection: what was read stays, and going through it stops every thread for 0.15 s."""

Told: TypeAlias = "Snapshot | RawText"

_PATIENCE_S = 1.0
_TURN_S = 0.0005
"""How long a key may wait for the thread that reads evidence; Python's own 5 ms add up over one repaint."""


class Session:
    """One triage in a thread of its own. `tell` is called from that thread."""

    def __init__(
        self, bundle: "Bundle", first: Snapshot, tell: Callable[[Told], None], *, deadline_s: float | None = None
    ) -> None:
        self._bundle = bundle
        self._first = first
        self._tell = tell
        self._deadline_s = deadline_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._conductor: Conductor | None = None
        self._waiting: list[Order] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="triage", daemon=True)

    def start(self) -> None:
        """Begin the walk."""
        sys.setswitchinterval(_TURN_S)
        gc.set_threshold(*_COLLECTOR)
        self._thread.start()

    def give(self, order: "Order") -> None:
        """Hand an order over; one given before the walk has begun is kept for it."""
        with self._lock:
            if self._loop is None or self._conductor is None:
                self._waiting.append(order)
            elif not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._conductor.give, order)

    def stop(self) -> None:
        """End the walk; what was gathered is kept. Waits a moment for the nodes to be let go."""
        with self._lock:
            if self._loop is not None and self._task is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._task.cancel)
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._conduct())
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self._tell(_with_problem(self._first, error))

    async def _conduct(self) -> None:
        # Imported here, in the thread: the first paint does not wait for the readings and their tables.
        module = importlib.import_module("oncall.console.conductor")
        conductor: Conductor = module.Conductor(self._bundle, self._first, self._tell, deadline_s=self._deadline_s)
        with self._lock:
            self._loop, self._task, self._conductor = asyncio.get_running_loop(), asyncio.current_task(), conductor
            for order in self._waiting:
                conductor.give(order)
        await conductor.run()


def _with_problem(snapshot: Snapshot, error: Exception) -> Snapshot:
    cause = error.cause if isinstance(error, OncallError) else f"{type(error).__name__}: {error}"
    return replace(snapshot, problem=cause)
