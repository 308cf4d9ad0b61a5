"""Has a collective run into its time limit, on any rank, in this attempt?"""

from dataclasses import dataclass

from oncall.formats.event import Event
from oncall.readings.case import Case
from oncall.readings.dump_list import DumpList, dump_list
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.log_set import LogFile, LogSet, own_logs
from oncall.readings.progress import newest_step
from oncall.run.nodes import fold_ranks


@dataclass(frozen=True, slots=True)
class Timeout:
    """One time-out as one rank reports it: group as the log names it, sequence number and operation there."""

    file: LogFile
    event: Event
    rank: int | None
    group: str | None
    sequence: int | None
    operation: str | None


def timeouts(logs: LogSet) -> tuple[Timeout, ...]:
    """Every time-out of the current attempt, in the order in which the files were read."""
    found = []
    for file in logs.current():
        for event in file.events:
            if event.kind != "nccl_timeout":
                continue
            spoken = event.number("global_rank")
            rank = spoken if spoken is not None else file.rank
            group = event.text("pg_desc") or event.text("pg_guid")
            found.append(Timeout(file, event, rank, group, event.number("seq"), event.text("op")))
    return tuple(found)


def watchdog(case: Case) -> Judgement:
    """Has a collective run into its time limit?

    `timed-out`: a log of this attempt says so. `dumped`: none does, but there are dumps younger than the last step, or
    ranks give their recorders without. `quiet`: neither. `unknown`: logs were not read.
    """
    logs = own_logs(case)
    found = timeouts(logs) if logs is not None else ()
    if found:
        finding = _finding(found)
        return Judgement(verdict="timed-out", reason=finding.text, findings=(finding,))
    dumped = _fresh_dumps(case, logs)
    if dumped is not None:
        return Judgement(verdict="dumped", reason=dumped.text, findings=(dumped,))
    if logs is None or not logs.files:
        return unknown("no log was read, so a time-out may have been missed")
    coverage = case.coverage("logs")
    if not coverage.complete:
        return unknown(f"no time-out in the logs read, but {coverage.describe()}")
    return Judgement(verdict="quiet", reason=f"no time-out in {len(logs.files)} logs")


def _finding(found: tuple[Timeout, ...]) -> Finding:
    ranks = tuple(sorted({each.rank for each in found if each.rank is not None}))
    first = min(found, key=lambda each: (each.event.text("ts") is None, each.event.text("ts") or ""))
    where = f"{first.operation or 'a collective'} {first.sequence if first.sequence is not None else ''}".strip()
    who = f"rank {first.rank}" if first.rank is not None else "a rank"
    others = f"; {len(ranks)} ranks in all ({fold_ranks(ranks)})" if len(ranks) > 1 else ""
    return Finding(
        kind="watchdog_timeout",
        text=f"{who} timed out in {where}{f' of {first.group}' if first.group else ''}{others}",
        role=Role.VICTIM,
        ranks=ranks,
        group=first.group,
        sequence=first.sequence,
        operation=first.operation,
        cites=tuple(
            Citation(probe="logs", host=t.file.host, file=t.file.path, text=t.file.line(t.event)) for t in found[:8]
        ),
    )


def _fresh_dumps(case: Case, logs: LogSet | None) -> Finding | None:
    """Dumps younger than the last step, or of the last minutes where no step is known."""
    listed = case.view("dumps", dump_list)
    if listed is None:
        return None
    step = newest_step(case)
    limit_s = step.age_s if step is not None and step.age_s is not None else case.run.thresholds.recent_s
    fresh = [file for file in listed.files if file.age_s is not None and file.age_s <= limit_s + 1.0]
    if not fresh:
        return _live(listed)
    return Finding(
        kind="observation",
        text=f"{len(fresh)} Flight Recorder dumps were written since the last step",
        hosts=tuple(dict.fromkeys(file.host for file in fresh)),
        cites=tuple(Citation(probe="dumps", host=file.host, file=file.path) for file in fresh[:8]),
    )


def _live(listed: DumpList) -> Finding | None:
    """Recorders that can be read without a dump."""
    if not listed.live:
        return None
    return Finding(
        kind="observation",
        text=f"the debug server gives the Flight Recorder of {len(listed.live)} ranks",
        hosts=tuple(dict.fromkeys(listed.live.values())),
        cites=tuple(Citation(probe="dumps", host=host) for host in dict.fromkeys(listed.live.values())),
    )
