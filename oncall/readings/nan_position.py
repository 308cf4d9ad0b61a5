"""Has the loss been lost before, and at the same place in the data?"""

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Finding, Judgement, Role, unknown
from oncall.readings.loss_end import LossEnd, loss_end, lost_loss
from oncall.readings.loss_history import loss_histories

_NEAR = 1
"""Steps by which two runs over the same data may differ: one batch in flight."""


def nan_position(case: Case) -> Judgement:
    """Was the loss lost before, and at the same place in the data?

    `same-position`: in another attempt at the same sample. `other-position`: in another attempt elsewhere.
    `first-time`: in no other. `unknown`: earlier attempts' logs are not seen, or do not tell where.
    """
    now = lost_loss(case)
    if now is None or now.step is None:
        return unknown("no log shows at which step the loss was lost")
    earlier = [each for each in loss_histories(case) if each.start != now.history.start]
    lost = [end for each in earlier if (end := loss_end(each)) is not None]
    known = [end for end in lost if end.step is not None]
    if not lost:
        if now.history.attempt and not any(each.steps for each in earlier):
            return unknown(f"the logs of the {now.history.attempt} attempts before are not among those read")
        return Judgement(verdict="first-time", reason=f"no earlier attempt lost its loss; this one at step {now.step}")
    if not known:
        return unknown(f"an earlier attempt lost its loss too, and no log shows at which step; {lost[-1].cite.text}")
    same = [end for end in known if _same(end, now)]
    words = "at the same place in the data" if same else "at another place in the data"
    told = "; ".join(_told(end) for end in (same or known)[-3:])
    finding = Finding(
        kind="loss_not_finite",
        text=f"the loss was lost before {words}: {told}; now at {_place(now)}",
        role=Role.ORIGIN,
        grade=Grade.SURE if now.samples is not None else Grade.LIKELY,
        sequence=now.step,
        cites=tuple(end.cite for end in known[-4:]),
    )
    return Judgement(verdict="same-position" if same else "other-position", reason=finding.text, findings=(finding,))


def _same(one: LossEnd, other: LossEnd) -> bool:
    """By samples where both tell them, since a range that was skipped shifts the steps; else by step."""
    late = _NEAR + max(one.late, other.late)
    if one.samples is not None and other.samples is not None:
        return abs(one.samples - other.samples) <= late * (other.batch or one.batch or 0)
    return one.step is not None and other.step is not None and abs(one.step - other.step) <= late


def _place(end: LossEnd) -> str:
    samples = f", {end.samples:,} samples in" if end.samples is not None else ""
    return f"step {end.step}{samples}"


def _told(end: LossEnd) -> str:
    folder, attempt = end.history.start
    of = f"an older launch, attempt {attempt}," if folder is not None else f"attempt {attempt}"
    return f"{of} at {_place(end)}"
