"""What did gradient norm, attention logits and loss scale do in the 100 steps before the loss was lost?"""

import math
import statistics
from collections.abc import Callable, Sequence

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.loss_end import STEPS_BACK, lost_loss
from oncall.readings.loss_history import LossHistory, StepValues

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
    lost = lost_loss(case)
    if lost is None or not lost.history.steps:
        return unknown("no step line of before the loss was lost is in any log read")
    end = lost.step if lost.step is not None else lost.history.steps[-1].step + 1
    before = lost.history.before(end, STEPS_BACK)
    fell = _overflows(lost.history, end) if before else None
    if len(before) < _ENOUGH and fell is None:
        return unknown(f"only {len(before)} steps before step {end} are in the logs read")
    for verdict, name, value in _SIGNALS:
        words = _grew(name, before, value)
        if words is not None:
            return _judgement(verdict, f"{words} before step {end}", before)
    fell = fell or _scale_fell(before)
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


def _overflows(history: LossHistory, end: int) -> str | None:
    """DeepSpeed tells the scale only where a step overflows (runtime/fp16/loss_scaler.py)."""
    scales: list[float] = []
    for file in history.files:
        step: int | None = None
        for event in file.events:
            if event.kind == "step":
                step = event.number("step")
            scale = event.fields.get("attempted_scale") if event.kind == "loss_scale_overflow" else None
            if isinstance(scale, int | float) and step is not None and end - STEPS_BACK <= step <= end:
                scales.append(float(scale))
    if not scales or scales[-1] > max(scales) / _HALVINGS:
        return None
    return f"the loss scale fell from {max(scales):.6g} to {scales[-1]:.6g} in {len(scales)} steps that overflowed"


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
