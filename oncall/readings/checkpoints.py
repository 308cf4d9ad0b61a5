"""The newest checkpoint that the job has written, as its folder and its logs tell."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from oncall.bundle.evidence import Evidence
from oncall.readings.case import Case
from oncall.readings.clock import age_s, node_clock
from oncall.readings.log_set import log_set
from oncall.run.numbers import whole

_STEP_IN_NAME = re.compile(r"(?:^|[a-z_=-])(\d+)$")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint: its training step, where that was read, and how old it is in seconds (None where not known)."""

    step: int
    source: str
    age_s: float | None


def newest_checkpoint(case: Case) -> Checkpoint | None:
    """The newest checkpoint; what the framework itself noted as complete goes before names of folders."""
    found = list(case.view("logs", _in_folder) or ())
    tracked = [each for each in found if each.source.endswith("latest_checkpointed_iteration.txt")]
    logs = case.view("logs", log_set)
    told = [
        Checkpoint(step, f"{file.host}:{file.path}", None)
        for file in (logs.files if logs else ())
        for event in file.events
        if event.kind == "checkpoint_done" and (step := event.number("step")) is not None
    ]
    return max(tracked or told or found, key=lambda each: each.step, default=None)


def _in_folder(evidence: Evidence) -> tuple[Checkpoint, ...]:
    return tuple(_listed(evidence))


def _listed(evidence: Evidence) -> Iterator[Checkpoint]:
    for host in evidence.asked:
        clock = node_clock(evidence, host)
        folder = ""
        for part in evidence.parts(host):
            noted = whole(part.text.strip()) if part.name == "tracker" else None
            if noted is not None:
                yield Checkpoint(noted, f"{host}:{folder}/latest_checkpointed_iteration.txt", None)
            if part.name != "checkpoints":
                continue
            folder = part.attributes.get("path", "")
            for line in part.text.splitlines():
                mtime, _, path = line.partition(" ")
                number = _STEP_IN_NAME.search(PurePosixPath(path).name.lower())
                step = whole(number[1]) if number else None
                if step is not None:
                    yield Checkpoint(step, f"{host}:{path}", age_s(clock, whole(mtime)))
