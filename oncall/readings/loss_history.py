"""Losses, gradient norms and loss scales of each attempt, step by step, as the logs show them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncall.formats.event import Event, Json
from oncall.readings.log_set import LogFile, LogSet

_NOT_FINITE = frozenset({"nan", "inf", "-inf"})


@dataclass(frozen=True, slots=True)
class StepValues:
    """What one step line says. A value that the line does not tell is None; one that is not finite is NaN or infinite.

    `samples` is what the run had consumed by then, `skipped` whether the optimizer skipped the step, `nan` whether the
    framework itself counts it as not finite.
    """

    step: int
    loss: float | None
    grad_norm: float | None
    loss_scale: float | None
    attention_logit: float | None
    samples: int | None
    skipped: bool
    nan: bool
    file: LogFile
    event: Event

    @property
    def finite(self) -> bool:
        """Whether the loss is a number, as far as the line tells."""
        return not self.nan and (self.loss is None or math.isfinite(self.loss))


@dataclass(frozen=True, slots=True)
class LossHistory:
    """The steps of one attempt in order; `attempt` is None where no folder tells it."""

    attempt: int | None
    steps: tuple[StepValues, ...]

    @property
    def first_bad(self) -> StepValues | None:
        """The first step whose loss is not finite, None where all are."""
        return next((step for step in self.steps if not step.finite), None)

    def before(self, step: int, count: int) -> tuple[StepValues, ...]:
        """Up to `count` steps before a step, oldest first."""
        return tuple(each for each in self.steps if step - count <= each.step < step)


def loss_histories(logs: LogSet) -> tuple[LossHistory, ...]:
    """The history of each attempt, oldest first. Of several ranks' lines for one step the worst counts."""
    steps: dict[int | None, dict[int, StepValues]] = {}
    for file in logs.files:
        for event in file.events:
            values = _values(file, event)
            if values is None:
                continue
            own = steps.setdefault(file.attempt, {})
            known = own.get(values.step)
            if known is None or (known.finite and (not values.finite or known.loss is None)):
                own[values.step] = values
    order = sorted(steps, key=lambda attempt: -1 if attempt is None else attempt)
    return tuple(LossHistory(a, tuple(steps[a][step] for step in sorted(steps[a]))) for a in order)


def _values(file: LogFile, event: Event) -> StepValues | None:
    step = event.number("step")
    if event.kind != "step" or step is None:
        return None
    fields = event.fields
    return StepValues(
        step=step,
        loss=_number(fields.get("loss")),
        grad_norm=_number(fields.get("grad_norm")),
        loss_scale=_number(fields.get("loss_scale")),
        attention_logit=_attention_logit(fields.get("losses"), fields.get("moe")),
        samples=event.number("consumed_samples"),
        skipped=(event.number("skipped") or 0) > 0,
        nan=(event.number("nan") or 0) > 0,
        file=file,
        event=event,
    )


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        return float(value) if value in _NOT_FINITE else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _attention_logit(*tables: Json) -> float | None:
    """The largest attention logit, where a framework prints it among its losses or metrics under some such name."""
    named: Iterable[tuple[str, Json]] = (
        item for table in tables if isinstance(table, Mapping) for item in table.items()
    )
    return next((_number(value) for name, value in named if "attention" in name and "logit" in name), None)
