"""The contract between the walk over a kernel log and the modules that each know one family of messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from oncall.formats.event import Json

Following: TypeAlias = Callable[[int], Sequence[str]]
"""Gives the messages of the next n lines, without their envelopes; fewer at the end of the log."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one message says: its kind, its fields, and how many of the lines after it belong to it."""

    kind: str
    fields: Mapping[str, Json]
    lines_after: int = 0


@dataclass(frozen=True, slots=True)
class Signature:
    """A family of kernel messages.

    Every line of the family holds the literal `needle`, by which it is found without looking at the others. `read`
    takes the message after the envelope and says None when it is of another family or of no interest.
    """

    needle: bytes
    read: Callable[[str, Following], Reading | None]


def number(text: str | None) -> int | None:
    """A decimal or 0x number as the kernel prints it; None stays None."""
    return None if text is None else int(text, 0) if text.lower().startswith("0x") else int(text)
