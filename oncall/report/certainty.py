"""How sure is a conclusion? Only what nothing seen contradicts, and nothing unseen could overturn, is."""

from collections.abc import Mapping, Sequence

from oncall.flight_recorder.model import Grade
from oncall.playbook.engine import Walk, WalkedStep
from oncall.playbook.model import Ending, Playbook
from oncall.readings.finding import UNKNOWN, Finding, Role

_GRADES = list(Grade)
_MAY_BE_HARDWARE = frozenset(
    {"process_lost", "host_frozen", "blocked_in_kernel", "stuck_before_collective", "in_launch", "gpu_stalled"}
)
"""Kinds behind which a fault of the hardware may stand. What a program issued is its own, whatever a kernel reports."""
_SHOWS_A_STOP: Mapping[str, frozenset[str]] = {
    "progress": frozenset({"stopped"}),
    "alive": frozenset({"gone", "stopped", "blocked", "job-gone"}),
    "watchdog": frozenset({"timed-out"}),
    "collective": frozenset({"absent", "mismatch", "order", "no-dump", "gpu", "all-joined"}),
    "ras": frozenset({"lost", "failed", "behind"}),
}
"""Reading → verdicts by which a job stands still. One look at stacks shows none: those of a job that runs are alike."""


def grade_of(walk: Walk, origins: Sequence[Finding]) -> Grade | None:
    """The weakest grade of the findings that carry a conclusion, `likely` at most where something leaves it open.

    A leaf that more than one answer fits is undecided, however sure its findings are.
    """
    grade = max((finding.grade for finding in origins), key=_GRADES.index, default=None)
    if grade is not None and walk.conclusion.ending is Ending.UNDECIDED:
        return Grade.UNDECIDED
    if grade is not Grade.SURE:
        return grade
    contradicted = any(finding.role is Role.AGAINST for finding in walk.findings)
    maybe_hardware = any(finding.kind in _MAY_BE_HARDWARE for finding in origins) and _hardware_is_open(walk)
    overruled = any(step.overruling is not None for step in walk.steps)
    return Grade.LIKELY if contradicted or overruled or maybe_hardware or _may_be_running(walk) else grade


def shows_a_stop(playbook: Playbook, steps: Sequence[WalkedStep]) -> bool:
    """Whether a step saw that the job stands still."""
    return any(step.verdict in _SHOWS_A_STOP.get(playbook.steps[step.step].reading, ()) for step in steps)


def _may_be_running(walk: Walk) -> bool:
    """Whether it was asked if the job still makes steps, and nothing told."""
    asked = any(walk.playbook.steps[step.step].reading == "progress" and step.verdict == UNKNOWN for step in walk.steps)
    return asked and not shows_a_stop(walk.playbook, walk.steps)


def _hardware_is_open(walk: Walk) -> bool:
    """Whether the kernel logs that would show a fault were asked for and not all read."""
    asked = (step for step in walk.steps if walk.playbook.steps[step.step].reading == "hardware")
    return any(step.verdict == UNKNOWN for step in asked)
