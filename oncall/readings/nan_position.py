"""Has the loss been lost before, and at the same place in the data?"""

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.log_set import log_set
from oncall.readings.loss import newest_history
from oncall.readings.loss_history import LossHistory, StepValues, loss_histories

_NEAR = 1
"""Steps by which two runs over the same data may differ: one batch in flight."""


def nan_position(case: Case) -> Judgement:
    """Was the loss lost before, and at the same place in the data?

    `same-position`: in another attempt at the same sample. `other-position`: in another attempt elsewhere.
    `first-time`: in no other. `unknown`: earlier attempts' logs are not seen.
    """
    logs = case.view("logs", log_set)
    newest = newest_history(logs) if logs else None
    if logs is None or newest is None or newest.first_bad is None:
        return unknown("no log shows at which step the loss was lost")
    bad = newest.first_bad
    earlier = [each for each in loss_histories(logs) if each.attempt != newest.attempt]
    lost = [(each, first) for each in earlier if (first := each.first_bad) is not None]
    if not lost:
        if newest.attempt and not earlier:
            return unknown(f"the logs of the {newest.attempt} attempts before are not among those read")
        return Judgement(verdict="first-time", reason=f"no earlier attempt lost its loss; this one at step {bad.step}")
    same = [(history, first) for history, first in lost if _same(first, bad)]
    verdict = "same-position" if same else "other-position"
    words = "at the same place in the data" if same else "at another place in the data"
    told = "; ".join(_told(history, first) for history, first in (same or lost)[-3:])
    finding = Finding(
        kind="loss_not_finite",
        text=f"the loss was lost before {words}: {told}; now at {_place(bad)}",
        role=Role.ORIGIN,
        grade=Grade.SURE if bad.samples is not None else Grade.LIKELY,
        sequence=bad.step,
        cites=tuple(
            Citation(probe="logs", host=first.file.host, file=first.file.path, text=first.file.line(first.event))
            for _, first in lost[-4:]
        ),
    )
    return Judgement(verdict=verdict, reason=finding.text, findings=(finding,))


def _same(one: StepValues, other: StepValues) -> bool:
    """By samples where both tell them, since a range that was skipped shifts the steps; else by step."""
    if one.samples is not None and other.samples is not None:
        batch = other.event.number("global_batch_size") or one.event.number("global_batch_size") or 0
        return abs(one.samples - other.samples) <= _NEAR * batch
    return abs(one.step - other.step) <= _NEAR


def _place(step: StepValues) -> str:
    samples = f", {step.samples:,} samples in" if step.samples is not None else ""
    return f"step {step.step}{samples}"


def _told(history: LossHistory, first: StepValues) -> str:
    return f"attempt {history.attempt} at {_place(first)}"
