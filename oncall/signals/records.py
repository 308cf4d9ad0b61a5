"""One line of a trainer's JSONL: the rank, the step it ended, and the numbers it tells."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from oncall.signals.trainer_signals import OBSERVED

MAX_FIELDS = 128
"""Numbers taken from one record; the trainers known write under 30."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NOT_A_VALUE = frozenset({"t", "step", "rank"}) | {signal.name for signal in OBSERVED}
_NOT_FINITE = {"nan", "inf", "+inf", "-inf", "infinity", "-infinity"}
_EARLIEST = 1e9
_AHEAD_S = 60.0


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one rank says about one step.

    `rank` and `step` are None where the record does not tell them. `time` is in unix seconds. `values` holds field →
    number, None for a field that the trainer wrote as null: not known any more.
    """

    rank: int | None
    time: float
    step: int | None
    values: Mapping[str, float | None]


def read_record(line: bytes, rank: int | None, written: float) -> StepRecord | None:
    """The record that a line of a trainer's JSONL holds; None when it is no JSON object with at least one number.

    `rank` is what the file's place tells, used when the record does not say it; `written` is when the file was last
    written to, used when `t` is missing, in other units than seconds, or in the future. NaN and Infinity are numbers,
    also as strings; text, lists and nested objects are left out, and so are names that no metric can have.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    values: dict[str, float | None] = {}
    for name, said in found.items():
        value = _number(said)
        field = field_name(name)
        if field is not None and (value is not None or said is None):
            values[field] = value
            if len(values) == MAX_FIELDS:
                break
    step = _whole(found.get("step"))
    if step is None and not values:
        return None
    spoken = _whole(found.get("rank"))
    return StepRecord(spoken if spoken is not None else rank, plausible_time(found.get("t"), written), step, values)


def field_name(said: str) -> str | None:
    """The field that a name stands for, dots and slashes as underscores; None when no metric can have that name.

    The names of what the exporter finds out by itself are taken.
    """
    name = said.replace(".", "_").replace("/", "_")
    return name if name not in _NOT_A_VALUE and _NAME.fullmatch(name) else None


def _number(said: object) -> float | None:
    if isinstance(said, str):
        return float(said) if said.strip().lower() in _NOT_FINITE else None
    if not isinstance(said, int | float):
        return None
    try:
        return float(said)
    except OverflowError:
        return None


def _whole(said: object) -> int | None:
    value = _number(said)
    return int(value) if value is not None and math.isfinite(value) and value == int(value) and value >= 0 else None


def plausible_time(said: object, written: float) -> float:
    """`said` if it is a time in unix seconds that a record in a file last written to at `written` can have.

    Else `written`: a time in other units or ahead of the clock would keep a run that hangs looking alive.
    """
    value = _number(said)
    return value if value is not None and _EARLIEST < value <= written + _AHEAD_S else written
