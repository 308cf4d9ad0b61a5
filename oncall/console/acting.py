"""Runs the one command that the operator saw and confirmed, on the console's own machine."""

import asyncio

from oncall.reach.ending import end

_DEADLINE_S = 60.0
_OUTPUT_KEPT = 4000


async def run_command(command: str, *, deadline_s: float = _DEADLINE_S) -> tuple[int | None, str]:
    """The exit code and the beginning of what it printed; None where it did not end in its time and was killed."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(deadline_s):
            output, _ = await process.communicate()
    except TimeoutError:
        return None, f"no end within {deadline_s:g} s; it was killed"
    finally:
        if process.returncode is None:
            await end(process)
    return process.returncode, output.decode("utf-8", "replace")[:_OUTPUT_KEPT]
