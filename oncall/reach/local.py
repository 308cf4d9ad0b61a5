"""Runs scripts on this machine, for a job of one node."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from oncall.bundle.evidence import Outcome
from oncall.reach.ending import end_session
from oncall.reach.protocol import Ended, Limits, Stderr, collect

_CHUNK = 65_536


class LocalReach:
    """`Reach` on this machine. Every host name means here."""

    async def run(self, host: str, script: bytes, sink: Callable[[bytes], None], limits: Limits) -> Ended:
        """As `Reach.run`; the script and all that it started are ended at the deadline."""
        started, clock = datetime.now(UTC), time.monotonic()
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-s",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        stderr = Stderr()
        try:
            async with asyncio.timeout(limits.total_s):
                await _feed(process, script)
                await collect(process.stdout, process.stderr, sink, stderr, limits.silence_s)
                await process.wait()
        except TimeoutError:
            took_s = time.monotonic() - clock
            return Ended(Outcome.PARTIAL, started, took_s, limits.describe(), None, stderr.text)
        finally:
            if process.returncode is None:
                await end_session(process.pid, partial(_gone, process))
        return Ended(Outcome.OK, started, time.monotonic() - clock, None, process.returncode, stderr.text)

    def forget(self, host: str) -> None:
        """Nothing is remembered."""

    async def close(self) -> None:
        """Nothing is held open."""


async def _gone(process: asyncio.subprocess.Process, patience_s: float) -> None:
    """Wait for its end. What it still says is read and let go: asyncio waits for the ends of its pipes too."""
    pipes = [_let_go(pipe) for pipe in (process.stdout, process.stderr) if pipe is not None]
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            await asyncio.gather(*pipes, process.wait())


async def _let_go(pipe: asyncio.StreamReader) -> None:
    while await pipe.read(_CHUNK):
        pass


async def _feed(process: asyncio.subprocess.Process, script: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(script)
        await process.stdin.drain()
        process.stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the script ended before it was read to its end; its exit code tells
