"""Is the job still finishing steps? When did the last one end, and how long do they take?"""

import statistics
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from oncall.formats.event import Event
from oncall.formats.kernel_time import NodeClock
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, unknown
from oncall.readings.log_set import LogFile, LogSet, own_logs
from oncall.readings.log_zone import log_clock, shifts, stamped_at

_STEPS_FOR_MEDIAN = 20
_YEAR_SLACK = timedelta(days=2)
_NONE = timedelta(0)


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest step that any log shows.

    `age_s` is the time since it ended; where only a bound is known, `at_least` is true. `moved` says that a later
    step was seen two seconds after. `normal_s` is the median step time, None where no line tells. `behind` is by how
    much the log's own zone puts its stamps before the node's.
    """

    step: int
    age_s: float | None
    at_least: bool
    moved: bool
    normal_s: float | None
    file: LogFile
    event: Event
    behind: timedelta

    def ended_at(self, now: datetime) -> datetime | None:
        """When the step ended, in UTC; None where only a bound of its age is known."""
        return None if self.age_s is None or self.at_least else now - timedelta(seconds=self.age_s)


def newest_step(case: Case) -> Progress | None:
    """The newest step of the current attempt over all logs, looked for once; None where no log holds a step line."""
    return case.once(newest_step, ("logs", "processes"), lambda: _newest(own_logs(case)))


def _newest(logs: LogSet | None) -> Progress | None:
    if logs is None:
        return None
    files = tuple(logs.current())
    behind = shifts(files)
    candidates = [found for file in files if (found := _of_file(file, behind.get(file.host, _NONE))) is not None]
    if not candidates:
        return None
    return max(candidates, key=lambda each: (each.step, -(each.age_s or 0.0)))


def _of_file(file: LogFile, behind: timedelta) -> Progress | None:
    first = file.last_step.number("step") if file.last_step else None
    later = file.later_step.number("step") if file.later_step else None
    moved = first is not None and later is not None and later > first
    event, step = (file.later_step, later) if moved or first is None else (file.last_step, first)
    if event is None or step is None:
        return None
    clock = log_clock(file, behind)
    age_s, at_least = _age(file, event, clock, moved=moved)
    return Progress(step, age_s, at_least, moved, _normal_s(file, clock), file, event, behind)


def _age(file: LogFile, event: Event, clock: NodeClock | None, *, moved: bool) -> tuple[float | None, bool]:
    if moved:
        return 0.0, False
    stamped = _stamp(event, clock)
    if stamped is not None and clock is not None:
        return max(0.0, (clock.now - stamped).total_seconds()), False
    return file.age_s, not file.ends_with_step


def _stamp(event: Event, clock: NodeClock | None) -> datetime | None:
    """The UTC time that a step line itself tells, unless that lies well ahead."""
    moment = stamped_at(event, clock)
    return moment if moment is not None and clock is not None and moment <= clock.now + _YEAR_SLACK else None


def _normal_s(file: LogFile, clock: NodeClock | None) -> float | None:
    """The median time of the last steps: as the lines tell it, else from the distance of their time stamps."""
    steps = [event for event in file.events if event.kind == "step"][-_STEPS_FOR_MEDIAN:]
    times = [value for event in steps if isinstance(value := event.fields.get("step_time_s"), int | float)]
    known = times or _distances_s(steps, clock)
    return statistics.median(known) if known else None


def _distances_s(steps: list[Event], clock: NodeClock | None) -> list[float]:
    stamped = [(number, at) for e in steps if (number := e.number("step")) is not None and (at := _stamp(e, clock))]
    return [
        (later - at).total_seconds() / (after - number)
        for (number, at), (after, later) in pairwise(stamped)
        if after > number
    ]


def stalled_after_s(case: Case, normal_s: float | None) -> float:
    """How long without a step counts as stopped: the run's floor, or its multiple of the median step time."""
    limits = case.run.thresholds
    return max(limits.stalled_s, limits.stalled_factor * (normal_s or 0.0))


def stands_still(case: Case, step: Progress | None) -> bool:
    """Whether the newest step is known to have ended longer ago than a job that makes steps would let pass."""
    return step is not None and step.age_s is not None and step.age_s > stalled_after_s(case, step.normal_s)


def progress(case: Case) -> Judgement:
    """Has a step ended of late?

    `moving`: the last step ended less than the run's limit ago, or steps end between two looks. `stopped`: it did not.
    `unknown`: no log tells when the last step ended.
    """
    logs = own_logs(case)
    if logs is None or not logs.files:
        return unknown("no log was read: " + _why_none(case, logs))
    found = newest_step(case)
    if found is None:
        return unknown(f"no step line in the {len(logs.files)} logs read")
    finding = _finding(case, found)
    if found.age_s is None:
        return unknown(f"{finding.text}, but nothing tells when", (finding,))
    if stands_still(case, found):
        return Judgement(verdict="stopped", reason=f"{finding.text}; normal is {_normal(found)}", findings=(finding,))
    if found.at_least:
        return unknown(f"{finding.text}; lines that are no steps follow it, so its age is only bounded", (finding,))
    proof = "and steps still end" if found.moved else f"within {stalled_after_s(case, found.normal_s):.0f} s"
    return Judgement(verdict="moving", reason=f"{finding.text}, {proof}", findings=(finding,))


def _why_none(case: Case, logs: LogSet | None) -> str:
    if logs is not None and logs.missing_folders:
        return f"{next(iter(logs.missing_folders.values()))} is no folder on {', '.join(logs.missing_folders)}"
    if case.run.paths.logs is None:
        return "the run file names no `paths.logs`, and no process writes to a file"
    return case.coverage("logs").describe()


def _normal(found: Progress) -> str:
    return f"{found.normal_s:.3g} s a step" if found.normal_s is not None else "not known"


def _finding(case: Case, found: Progress) -> Finding:
    bound = "at least " if found.at_least else ""
    when = f", {bound}{found.age_s:.0f} s ago" if found.age_s is not None else ""
    cite = Citation(
        probe="logs",
        host=found.file.host,
        file=found.file.path,
        line=None,
        text=found.file.line(found.event) if found.event is found.file.last_step else "",
    )
    return Finding(
        kind="progress",
        text=f"the last step was {found.step}{when}{_zone_note(found.behind)}",
        time=found.ended_at(case.now),
        sequence=found.step,
        cites=(cite,),
    )


def _zone_note(behind: timedelta) -> str:
    """What was assumed of the log's stamps."""
    hours = abs(behind) / timedelta(hours=1)
    word = "behind" if behind > _NONE else "ahead of"
    return f" (its log's time zone is {hours:g} h {word} the node's)" if behind else ""
