"""Runs the one command that the operator saw and confirmed, on the console's own machine."""

import asyncio
import subprocess
import tempfile
import threading
from contextlib import suppress
from typing import IO

from oncall.reach.ending import end_session

_DEADLINE_S = 60.0
_OUTPUT_KEPT = 4000


async def run_command(command: str, *, deadline_s: float = _DEADLINE_S) -> tuple[int | None, str]:
    """The exit code and the beginning of what it printed; None where it did not end in its time and was killed.

    Where this is cancelled, the command goes on: half of an action may be worse than the whole of it.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    # A file and no pipe: a command that is left alone still has where to print.
    with tempfile.TemporaryFile() as printed:
        process = _begun(command, printed)
        threading.Thread(target=_watch, args=(process, loop, ended), name="command", daemon=True).start()

        async def gone(patience_s: float) -> bool:
            return bool((await asyncio.wait({ended}, timeout=patience_s))[0])

        if not await gone(deadline_s):
            await end_session(process.pid, gone)
            return None, f"no end within {deadline_s:g} s; it was killed"
        printed.seek(0)
        return ended.result(), printed.read(_OUTPUT_KEPT).decode("utf-8", "replace")


def _begun(command: str, printed: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=printed,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _watch(process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[int]") -> None:
    exit_code = process.wait()
    # RuntimeError: the loop has ended before.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_tell, ended, exit_code)


def _tell(ended: "asyncio.Future[int]", exit_code: int) -> None:
    if not ended.done():
        ended.set_result(exit_code)
