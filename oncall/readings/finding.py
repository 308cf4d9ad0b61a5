"""What readings conclude: facts with the lines that show them, and a verdict for the step that asked."""

from datetime import datetime
from enum import StrEnum

import msgspec

from oncall.flight_recorder.model import Grade


class Role(StrEnum):
    """What a finding says of its ranks: they began it, they suffer from it, or it speaks against a suspect."""

    ORIGIN = "origin"
    VICTIM = "victim"
    CONTEXT = "context"
    AGAINST = "against"


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a finding was read: the probe, and as far as known the host, the file, its 1-based line and the words."""

    probe: str
    host: str | None = None
    file: str | None = None
    line: int | None = None
    text: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fact. `kind` is from `oncall.readings.kinds`; `doing` is where a rank's training thread stands."""

    kind: str
    text: str
    role: Role = Role.CONTEXT
    grade: Grade = Grade.SURE
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    time: datetime | None = None
    doing: str | None = None
    frame: str | None = None
    group: str | None = None
    sequence: int | None = None
    operation: str | None = None
    explains: int | None = None
    chain: tuple[str, ...] = ()
    next_check: str | None = None
    cites: tuple[Citation, ...] = ()


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """A reading's answer: one of its verdicts, why, and the facts it rests on."""

    verdict: str
    reason: str
    findings: tuple[Finding, ...] = ()


UNKNOWN = "unknown"
"""The verdict that every reading may give: what it needs was not there."""


def unknown(reason: str, findings: tuple[Finding, ...] = ()) -> Judgement:
    """The verdict `unknown`, with what was missing."""
    return Judgement(verdict=UNKNOWN, reason=reason, findings=findings)
