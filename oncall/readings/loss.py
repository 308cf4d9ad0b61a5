"""Is the loss a number? If not, since which step, and what data was that?"""

import re

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.log_set import LogSet, log_set
from oncall.readings.loss_history import LossHistory, StepValues, loss_histories
from oncall.run.nodes import fold_ranks

STEPS_BACK = 100
"""How far before a loss that is not finite a checkpoint is good: what ruins a loss builds up for so long."""

_RAISED = re.compile(
    r"(?:Error|Exception)\b(?=.*(?:loss|grad)).*(?:non-?finite|not finite|\bnan\b|\binf\b)", re.IGNORECASE
)


def loss(case: Case) -> Judgement:
    """Is the loss a number?

    `not-finite`: a step of this attempt has a loss of NaN or infinity, or the trainer stopped over one. `finite`: every
    step that the logs show has a finite one. `unknown`: no log tells a loss.
    """
    logs = case.view("logs", log_set)
    newest = newest_history(logs) if logs else None
    if logs is None or newest is None:
        return unknown("no step line in any log: " + case.coverage("logs").describe())
    bad = newest.first_bad
    if bad is not None:
        finding = _finding(case, logs, newest, bad)
        return Judgement(verdict="not-finite", reason=finding.text, findings=(finding,))
    raised = raised_line(logs)
    if raised is not None:
        last = newest.steps[-1]
        finding = _raised_finding(case, raised, last)
        return Judgement(verdict="not-finite", reason=finding.text, findings=(finding,))
    with_loss = [step for step in newest.steps if step.loss is not None]
    if not with_loss:
        return unknown(f"{len(newest.steps)} step lines, and none of them tells a loss")
    reason = f"the loss is finite in all {len(with_loss)} steps seen, up to step {with_loss[-1].step}"
    return Judgement(verdict="finite", reason=reason)


def newest_history(logs: LogSet) -> LossHistory | None:
    """The history of the newest attempt that has done steps."""
    found = logs.current()
    attempts = {file.attempt for file in found}
    histories = [history for history in loss_histories(logs) if history.steps]
    newest = [history for history in histories if history.attempt in attempts]
    return next(reversed(newest or histories), None)


def raised_line(logs: LogSet) -> Citation | None:
    """The line by which a framework says that it stops since the loss is not finite, in the current attempt."""
    for file in logs.current():
        for line in reversed(file.lines):
            if _RAISED.search(line):
                return Citation(probe="logs", host=file.host, file=file.path, text=line.strip()[:300])
    return None


def _finding(case: Case, logs: LogSet, history: LossHistory, bad: StepValues) -> Finding:
    since = "since" if history.before(bad.step, STEPS_BACK) else "since before"
    at = f", {bad.samples:,} samples in" if bad.samples is not None else ""
    ranks, who = _ranks(logs, bad.step)
    named = f"; {who} {fold_ranks(ranks)}" if ranks else ""
    return Finding(
        kind="loss_not_finite",
        text=f"the loss is not finite {since} step {bad.step}{at}{named}",
        role=Role.ORIGIN,
        grade=Grade.SURE,
        ranks=ranks,
        hosts=case.ranks.hosts_of(ranks),
        sequence=bad.step,
        cites=(Citation(probe="logs", host=bad.file.host, file=bad.file.path, text=bad.file.line(bad.event)),),
    )


def _raised_finding(case: Case, raised: Citation, last: StepValues) -> Finding:
    at = f", {last.samples:,} samples in" if last.samples is not None else ""
    return Finding(
        kind="loss_not_finite",
        text=f"the framework stopped since the loss is not finite, after step {last.step}{at}",
        role=Role.ORIGIN,
        grade=Grade.SURE,
        sequence=last.step + 1,
        cites=(raised,),
    )


def _ranks(logs: LogSet, step: int) -> tuple[tuple[int, ...], str]:
    """The ranks on which Megatron's rerun machine met the value first (core/rerun_state_machine.py)."""
    told = [e for file in logs.current() for e in file.events if e.kind == "rerun_unexpected"]
    ranks = {rank for e in told if e.number("step") == step and (rank := e.number("rank")) is not None}
    return tuple(sorted(ranks)), "first on rank" if len(ranks) == 1 else "first on ranks"
