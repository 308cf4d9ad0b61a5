"""A few threads of our own for a library that blocks."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_Task = tuple[Callable[[], Any], "Future[Any]"]


class Workers:
    """Daemon threads that do blocking calls for an event loop: one that never returns delays nobody's exit."""

    def __init__(self, count: int, name: str) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"{name}-{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    async def call(self, work: Callable[[], T], *, within_s: float) -> T:
        """What `work` returns or raises; TimeoutError when that takes longer, waiting for a free thread included."""
        future: Future[T] = Future()
        self._tasks.put((work, future))
        return await asyncio.wait_for(asyncio.wrap_future(future), within_s)

    def close(self) -> None:
        """Let each thread end after what it is doing; waits for none."""
        for _ in self._threads:
            self._tasks.put(None)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            work, future = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)
