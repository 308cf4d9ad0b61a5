"""What every way to the nodes offers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from oncall.bundle.evidence import Outcome

_STDERR_LIMIT = 16_384
_CHUNK = 262_144


class ByteStream(Protocol):
    """A stream that is read in chunks and ends with an empty one."""

    async def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; empty at the end."""
        ...


class Stderr:
    """The beginning of a command's standard error; the rest is let go."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def keep(self, data: bytes) -> None:
        """Take in what arrived."""
        self._kept += data[: max(0, _STDERR_LIMIT - len(self._kept))]

    @property
    def text(self) -> str:
        """What was kept; bytes that are not UTF-8 are replaced."""
        return self._kept.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a script may take in all, and how long it may say nothing, in seconds."""

    total_s: float
    silence_s: float

    def describe(self) -> str:
        """`no end within 60 s, or silent for 10 s`."""
        if self.silence_s >= self.total_s:
            return f"no end within {self.total_s:g} s"
        return f"no end within {self.total_s:g} s, or silent for {self.silence_s:g} s"


async def collect(
    stdout: ByteStream, stderr: ByteStream, sink: Callable[[bytes], None], said: Stderr, silence_s: float
) -> None:
    """Hand all that a command prints to `sink`, as it arrives, and the beginning of its standard error to `said`.

    Raises TimeoutError when nothing comes for `silence_s` seconds.
    """
    beside = asyncio.create_task(_drain(stderr, said.keep, None))
    try:
        await _drain(stdout, sink, silence_s)
        await beside
    finally:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)


async def _drain(stream: ByteStream, sink: Callable[[bytes], None], silence_s: float | None) -> None:
    while True:
        async with asyncio.timeout(silence_s):
            data = await stream.read(_CHUNK)
        if not data:
            return
        sink(data)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a script on a node ended. `started` is UTC, `took_s` in seconds; `reason` explains what is not `OK`."""

    outcome: Outcome
    started: datetime
    took_s: float
    reason: str | None = None
    exit_code: int | None = None
    stderr: str = ""


class Reach(Protocol):
    """A way to run a shell script on a node. A node that cannot be asked is an outcome, never an exception."""

    async def run(self, host: str, script: bytes, sink: Callable[[bytes], None], limits: Limits) -> Ended:
        """Run a POSIX shell script on `host`; its standard output goes to `sink` as it arrives.

        Connecting has its own deadline; `limits` are for the script.
        """
        ...

    def forget(self, host: str) -> None:
        """Connect anew the next time to a node that could not be reached, or whose connection was lost."""
        ...

    async def close(self) -> None:
        """End all connections."""
        ...
