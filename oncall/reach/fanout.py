"""Asks every node at once and keeps each answer the moment it is there."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from oncall.bundle.evidence import Evidence, NodeAnswer, Outcome
from oncall.bundle.probe_folder import ProbeFolder
from oncall.reach.protocol import Ended, Limits, Reach


async def ask_all(
    reach: Reach,
    folder: ProbeFolder,
    scripts: Mapping[str, bytes],
    *,
    boundary: str,
    limits: Limits,
    on_answer: Callable[[NodeAnswer], None],
) -> Evidence:
    """Run one script on each of its hosts, all at the same time.

    Args:
        folder: where the raw output and the index go; an answer is on disk before `on_answer` hears of it.
        scripts: host → POSIX shell script.
        boundary: the word that separates the parts of each script's output.
        limits: for each script, after the node is connected.

    If this is cancelled, the nodes that have not answered are recorded as such, with what they sent so far.
    """

    async def ask(host: str, script: bytes) -> None:
        output = folder.open_answer(host)
        ended = Ended(Outcome.CANCELLED, datetime.now(UTC), 0.0, "the triage ended first")
        try:
            ended = await reach.run(host, script, output.write, limits)
        except Exception as error:
            ended = Ended(Outcome.FAILED, datetime.now(UTC), 0.0, f"{type(error).__name__}: {error}")
        finally:
            answer = _answer(host, ended, boundary, folder.relative(output.close()))
            folder.record(answer)
            on_answer(answer)

    async with asyncio.TaskGroup() as tasks:
        for host, script in scripts.items():
            tasks.create_task(ask(host, script), name=f"{folder.probe} {host}")
    return folder.evidence()


def _answer(host: str, ended: Ended, boundary: str, file: str | None) -> NodeAnswer:
    outcome, reason = ended.outcome, ended.reason
    if outcome is Outcome.OK and ended.exit_code != 0:
        told = ended.stderr.strip().splitlines()[-1:] or ["nothing on standard error"]
        outcome, reason = Outcome.FAILED, f"the script ended with exit code {ended.exit_code}: {told[0]}"
    return NodeAnswer(
        host=host,
        outcome=outcome,
        started=ended.started,
        took_s=round(ended.took_s, 3),
        reason=reason,
        exit_code=ended.exit_code,
        stderr=ended.stderr,
        boundary=boundary,
        file=file,
    )
