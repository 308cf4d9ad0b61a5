"""Looks host names up without being held up by the resolver."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_MOST_AT_ONCE = 512
"""Threads: those of a resolver that is silent stay for as long as it is."""

Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
"""As of `socket.getaddrinfo`."""


class Resolver:
    """Looks names up, so many at once that a few silent ones delay no other.

    A resolver whose server is gone is silent for half a minute. The event loop's own threads are few, and it waits for
    them at its end: there some such names would hold up all others, and the answer.
    """

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)

    async def addresses(self, host: str, port: int) -> list[Address]:
        """The addresses of a host for a stream, as `socket.getaddrinfo` gives them.

        Raises OSError as `socket.getaddrinfo`, UnicodeError for what no host can be called.
        """
        async with self._slots:
            return await _addresses(host, port)


async def _addresses(host: str, port: int) -> list[Address]:
    """In a thread of its own, which nobody waits for."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[Address]] = loop.create_future()

    def settle(put: Callable[[Any], None], value: object) -> None:
        if not found.done():
            put(value)

    def look_up() -> None:
        put: Callable[[Any], None] = found.set_result
        try:
            value: object = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            put, value = found.set_exception, error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, put, value)

    try:
        threading.Thread(target=look_up, name=f"look up {host}", daemon=True).start()
    except RuntimeError as error:
        raise OSError(f"its name was not looked up: {error}") from error
    return await found
