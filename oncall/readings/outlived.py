"""Which faults did the job outlive? It went on to finish steps after them, so they are not what stopped it."""

from dataclasses import dataclass
from datetime import datetime

from oncall.readings.case import Case
from oncall.readings.incident_order import IN_FLIGHT_S, told_late_s
from oncall.readings.kernel_set import KernelEvent
from oncall.readings.progress import newest_step, stands_still

_RUN_AHEAD_STEPS = 5
"""How many steps hosts may still log after a GPU has stopped: they issue work ahead of it."""
_ONE_LOOK_S = 2.0
"""Kernels and logs are read at different moments, and their stamps are rounded."""


@dataclass(frozen=True, slots=True)
class LastStep:
    """When the last step of a stopped job ended, in UTC, and how long a step took in seconds."""

    ended: datetime
    normal_s: float

    def after_s(self, event: KernelEvent) -> float | None:
        """For how many seconds after an event steps still ended, at least; None where its time is not known."""
        if event.latest is None:
            return None
        return (self.ended - event.latest).total_seconds() - (event.uncertainty_s or 0.0)

    def outlived(self, event: KernelEvent) -> bool:
        """Whether so many steps ended after an event that it did not stop them."""
        after_s = self.after_s(event)
        return after_s is not None and after_s > self._slack_s

    def came_with(self, event: KernelEvent) -> bool:
        """Whether an event came about when the step began that never ended, as far as clocks tell."""
        if event.at is None or self.outlived(event):
            return False
        began = (event.at - self.ended).total_seconds() - (event.uncertainty_s or 0.0) - told_late_s(event.event)[0]
        return began <= self._slack_s

    @property
    def _slack_s(self) -> float:
        return max(IN_FLIGHT_S, _RUN_AHEAD_STEPS * self.normal_s)

    def preceded_by(self, event: KernelEvent) -> bool:
        """Whether a step ended after an event, be it the one that was under way."""
        after_s = self.after_s(event)
        return after_s is not None and after_s > max(_ONE_LOOK_S, 2 * self.normal_s)


def last_step(case: Case) -> LastStep | None:
    """The last step, in a walk that has asked for it and found the job stopped.

    A walk that asks why a job restarts, or what an alert of a GPU means, is about older faults too.
    """
    if not any(finding.kind == "progress" for finding in case.findings):
        return None
    return case.once(last_step, ("logs", "processes"), lambda: _by_logs(case))


def _by_logs(case: Case) -> LastStep | None:
    found = newest_step(case)
    ended = found.ended_at(case.now) if found else None
    return LastStep(ended, found.normal_s or 0.0) if found and ended and stands_still(case, found) else None
