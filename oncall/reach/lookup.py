"""Looks host names up without being held up by the resolver."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
"""As of `socket.getaddrinfo`."""


async def addresses(host: str, port: int) -> list[Address]:
    """The addresses of a host for a stream, as `socket.getaddrinfo` gives them, in a thread that nobody waits for.

    A resolver whose server is gone is silent for half a minute. The event loop's own threads are few, and it waits for
    them at its end: there some such names would hold up all others, and the answer.

    Raises OSError as `socket.getaddrinfo`, UnicodeError for what no host can be called.
    """
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

    threading.Thread(target=look_up, name=f"look up {host}", daemon=True).start()
    return await found
