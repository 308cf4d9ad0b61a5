"""Is the loss a number? If not, since which step, and what data was that?"""

from collections.abc import Sequence

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Finding, Judgement, Role, unknown
from oncall.readings.log_set import LogFile
from oncall.readings.loss_end import STEPS_BACK, LossEnd, lost_loss, started_since
from oncall.readings.loss_history import LossHistory, StepValues, loss_histories
from oncall.run.nodes import fold_ranks

_AGAIN_AND_AGAIN = 3
"""Steps of the last hundred that lost their loss before others that are finite: one may be chance, three are not."""


def loss(case: Case) -> Judgement:
    """Is the loss a number?

    `not-finite`: the last step of this attempt has a loss of NaN or infinity, or the trainer stopped over one and has
    not got past that step since. `recurring`: the last one is finite, and several of the last hundred were not.
    `finite`: the last one is finite. `unknown`: no log tells a loss.
    """
    end = lost_loss(case)
    if end is not None:
        finding = _finding(case, end)
        return Judgement(verdict="not-finite", reason=finding.text, findings=(finding,))
    newest = next((each for each in reversed(loss_histories(case)) if each.steps and each.runs_now), None)
    if newest is None:
        return unknown("no step line in any log: " + case.coverage("logs").describe())
    told = newest.with_loss
    if not told:
        return unknown(f"{len(newest.steps)} step lines, and none of them tells a loss")
    return _recovered(newest, told) or _finite(told)


def _finite(told: Sequence[StepValues]) -> Judgement:
    return Judgement(
        verdict="finite", reason=f"the loss is finite in all {len(told)} steps seen, up to {told[-1].step}"
    )


def _recovered(history: LossHistory, told: Sequence[StepValues]) -> Judgement | None:
    """A step that was skipped or came to nothing, with finite ones after it."""
    last = told[-1].step
    bad = [step for step in told if not step.finite and step.step > last - STEPS_BACK]
    if not bad:
        return None
    again = len(bad) >= _AGAIN_AND_AGAIN
    steps = ", ".join(str(step.step) for step in bad[-5:])
    since = last - bad[-1].step
    words = f"at {len(bad)} of the last {STEPS_BACK} steps, the last of them {steps}" if again else f"at step {steps}"
    finding = Finding(
        kind="loss_not_finite",
        text=f"the loss was not finite {words}, and has been for {since} steps since",
        role=Role.ORIGIN if again else Role.CONTEXT,
        grade=Grade.SURE,
        sequence=bad[0].step,
        cites=tuple(step.file.cite(step.line) for step in bad[-4:]),
    )
    verdict = "recurring" if again else "finite"
    return Judgement(verdict=verdict, reason=finding.text, findings=(finding,))


def _finding(case: Case, end: LossEnd) -> Finding:
    ranks, who = _ranks(end.history.files, end.step)
    named = f"; {who} {fold_ranks(ranks)}" if ranks else ""
    return Finding(
        kind="loss_not_finite",
        text=f"{_since(end)}{named}{_started_again(case, end)}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY if end.seen == 1 and end.skipped else Grade.SURE,
        ranks=ranks,
        hosts=case.ranks.hosts_of(ranks),
        sequence=end.step,
        cites=(end.cite,),
    )


def _since(end: LossEnd) -> str:
    at = f", {end.samples:,} samples in" if end.samples is not None else ""
    who = "the framework stopped since the loss is not finite" if end.raised else "the framework met what is not finite"
    if end.step is None:
        return f"{who}; no line tells at which step"
    if not end.seen:
        late = f", or up to {end.late} steps later" if end.late else ""
        return f"{who} at step {end.step}{at}{late}"
    if end.seen == 1 and end.skipped:
        return f"the loss is not finite at step {end.step}{at}, the last one seen; the optimizer skipped it"
    since = "since" if end.history.before(end.step, STEPS_BACK) else "since before"
    return f"the loss is not finite {since} step {end.step}{at}"


def _started_again(case: Case, end: LossEnd) -> str:
    """What the launcher has done since, where that has not come to the step yet."""
    newest = started_since(case, end)
    if newest is None:
        return ""
    come = f"is at step {newest.steps[-1].step}" if newest.steps else "has done no step yet"
    return f", in attempt {end.history.attempt}; attempt {newest.attempt} {come}"


def _ranks(files: Sequence[LogFile], step: int | None) -> tuple[tuple[int, ...], str]:
    """The ranks on which Megatron's rerun machine met the value first (core/rerun_state_machine.py)."""
    told = [event for file in files for event in file.events if event.kind == "rerun_unexpected"]
    ranks = {rank for e in told if e.number("step") == step and (rank := e.number("rank")) is not None}
    return tuple(sorted(ranks)), "first on rank" if len(ranks) == 1 else "first on ranks"
