"""What did gradient norm, attention logits and loss scale do in the 100 steps before the loss was lost?"""

import math
import statistics
from collections.abc import Callable, Sequence

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.log_set import log_set
from oncall.readings.loss import STEPS_BACK, newest_history
from oncall.readings.loss_history import StepValues

_ENOUGH = 20
_LATE = 10
_GREW = 2.0
"""A median over the last ten steps that is twice that of the first half has left its usual scatter of some per cent."""
_HALVINGS = 4.0
"""A loss scale at a quarter or less of what it was: two overflows close together."""


def numerics(case: Case) -> Judgement:
    """What built up in the 100 steps before the loss was lost?

    `logits-grew`: the largest attention logit at least doubled. `gradients-grew`: the gradient norm did. `scale-fell`:
    the loss scale was halved several times. `sudden`: all three were as usual. `unknown`: too few steps before are
    seen.
    """
    logs = case.view("logs", log_set)
    history = newest_history(logs) if logs else None
    if history is None or not history.steps:
        return unknown("no step line in any log")
    bad = history.first_bad
    end = bad.step if bad else history.steps[-1].step + 1
    before = history.before(end, STEPS_BACK)
    if len(before) < _ENOUGH:
        return unknown(f"only {len(before)} steps before step {end} are in the logs read")
    for verdict, name, value in _SIGNALS:
        words = _grew(name, before, value)
        if words is not None:
            return _judgement(verdict, f"{words} before step {end}", before)
    fell = _scale_fell(before)
    if fell is not None:
        return _judgement("scale-fell", f"{fell} before step {end}", before)
    if all(step.grad_norm is None for step in before):
        return unknown(f"the {len(before)} steps before step {end} tell no gradient norm")
    return _judgement("sudden", f"gradient norm and loss scale were as usual up to step {end}", before)


_SIGNALS: tuple[tuple[str, str, Callable[[StepValues], float | None]], ...] = (
    ("logits-grew", "the largest attention logit", lambda step: step.attention_logit),
    ("gradients-grew", "the gradient norm", lambda step: step.grad_norm),
)


def _grew(name: str, steps: Sequence[StepValues], value: Callable[[StepValues], float | None]) -> str | None:
    known = [number for step in steps if (number := value(step)) is not None]
    if len(known) < _ENOUGH:
        return None
    before = [number for number in known[: len(known) // 2] if math.isfinite(number)]
    if not before:
        return None
    early = statistics.median(before)
    late = statistics.median(math.inf if math.isnan(number) else number for number in known[-_LATE:])
    if early <= 0 or late < _GREW * early:
        return None
    return f"{name} grew from {early:.3g} to {late:.3g} in the {len(known)} steps"


def _scale_fell(steps: Sequence[StepValues]) -> str | None:
    scales = [step.loss_scale for step in steps if step.loss_scale is not None and math.isfinite(step.loss_scale)]
    skipped = sum(step.skipped for step in steps)
    if len(scales) < _ENOUGH or scales[-1] > max(scales) / _HALVINGS:
        return None
    return f"the loss scale fell from {max(scales):.6g} to {scales[-1]:.6g} ({skipped} steps skipped)"


def _judgement(verdict: str, words: str, before: Sequence[StepValues]) -> Judgement:
    last = before[-1]
    finding = Finding(
        kind="loss_not_finite",
        text=words,
        role=Role.CONTEXT if verdict == "sudden" else Role.ORIGIN,
        grade=Grade.LIKELY,
        sequence=last.step,
        cites=(Citation(probe="logs", host=last.file.host, file=last.file.path, text=last.file.line(last.event)),),
    )
    return Judgement(verdict=verdict, reason=words, findings=(finding,))
