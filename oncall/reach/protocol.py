"""What every way to the nodes offers."""

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


async def drain(stream: ByteStream, sink: Callable[[bytes], None]) -> None:
    """Hand all that a stream brings to `sink`, as it arrives."""
    while data := await stream.read(_CHUNK):
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

    async def run(self, host: str, script: bytes, sink: Callable[[bytes], None], deadline_s: float) -> Ended:
        """Run a POSIX shell script on `host`; its standard output goes to `sink` as it arrives.

        Connecting has its own deadline; `deadline_s` is for the script, in seconds.
        """
        ...

    async def close(self) -> None:
        """End all connections."""
        ...
