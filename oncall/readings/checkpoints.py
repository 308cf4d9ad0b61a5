"""The newest checkpoint that the job has written, as its folder and its logs tell."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import PurePosixPath

from oncall.bundle.evidence import Evidence
from oncall.readings.case import Case
from oncall.readings.clock import age_s, node_clock
from oncall.readings.finding import Role
from oncall.readings.log_set import own_logs
from oncall.readings.loss_end import STEPS_BACK
from oncall.readings.saves import saves
from oncall.run.numbers import whole

_TRACKER = "latest_checkpointed_iteration.txt"
"""Megatron's note of the last save that is complete (megatron/training/checkpointing.py)."""
_STEP_IN_NAME = re.compile(r"(?:^|[a-z_=-])(\d+)$")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint: its training step, where that was read, and how old it is in seconds (None where not known)."""

    step: int
    source: str
    age_s: float | None


def newest_checkpoint(case: Case) -> Checkpoint | None:
    """The newest good checkpoint; what the framework itself noted as complete goes before names of folders.

    Where the loss was lost, only one that lies STEPS_BACK steps before that is good.
    """
    lost = _lost_at(case)
    first = min((step for step in lost if step is not None), default=-inf)
    newest_good = first - STEPS_BACK if lost else inf
    for found in _known(case):
        good = [each for each in found if each.step <= newest_good]
        if good:
            return max(good, key=lambda each: each.step)
    return None


def way_back(case: Case) -> str:
    """Which checkpoint to go back to, for the sentence that says so; why there is none where the loss was lost."""
    newest, lost = newest_checkpoint(case), _lost_at(case)
    if newest is not None:
        return f" (step {newest.step:,})"
    if not lost:
        return ""
    steps = [each.step for found in _known(case) for each in found]
    if not steps:
        return " (no checkpoint was seen)"
    if all(step is None for step in lost):
        return " (no log tells at which step the loss was lost, so none that was seen is known to be good)"
    return f" (none that was seen lies so far back: the oldest is of step {min(steps):,})"


def _known(case: Case) -> tuple[Sequence[Checkpoint], ...]:
    """All checkpoints that the trainer notes, that logs tell of, and that lie in the folder."""
    listed = case.view("logs", _in_folder) or ()
    logs = own_logs(case)
    told = [
        Checkpoint(step, f"{file.host}:{file.path}", None)
        for file in (logs.files if logs else ())
        for event in file.events
        if event.kind == "checkpoint_done" and (step := event.number("step")) is not None
    ]
    return [each for each in listed if each.source.endswith(_TRACKER)], told, listed_checkpoints(case)


def listed_checkpoints(case: Case) -> tuple[Checkpoint, ...]:
    """The checkpoints that the folder holds, each step once; a save that the logs show unfinished is none."""
    logs = own_logs(case)
    unfinished = {save.step for save in saves(logs).saves if not save.done} if logs else set()
    listed = (each for each in case.view("logs", _in_folder) or () if not each.source.endswith(_TRACKER))
    return tuple({each.step: each for each in listed if each.step not in unfinished}.values())


def _lost_at(case: Case) -> list[int | None]:
    """The steps at which findings say that the loss was lost."""
    return [f.sequence for f in case.findings if f.kind == "loss_not_finite" and f.role is Role.ORIGIN]


def _in_folder(evidence: Evidence) -> tuple[Checkpoint, ...]:
    return tuple(_listed(evidence))


def _listed(evidence: Evidence) -> Iterator[Checkpoint]:
    for host in evidence.asked:
        parts = evidence.parts(host)
        clock = node_clock(evidence.answers.get(host), parts)
        folder = ""
        for part in parts:
            noted = whole(part.text.strip()) if part.name == "tracker" else None
            if noted is not None:
                yield Checkpoint(noted, f"{host}:{folder}/{_TRACKER}", None)
            if part.name != "checkpoints":
                continue
            folder = part.attributes.get("path", "")
            for line in part.text.split("\n"):
                mtime, _, path = line.partition(" ")
                number = _STEP_IN_NAME.search(PurePosixPath(path).name.lower())
                step = whole(number[1]) if number else None
                if step is not None:
                    yield Checkpoint(step, f"{host}:{path}", age_s(clock, whole(mtime)))
