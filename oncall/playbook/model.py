"""A playbook: steps with questions and branches, and the conclusions that they lead to."""

from enum import StrEnum
from typing import Literal

import msgspec


class Ending(StrEnum):
    """What kind of answer a conclusion is. The exit code of a triage follows from it."""

    CAUSE_FOUND = "cause-found"
    NOTHING_WRONG = "nothing-wrong"
    UNDECIDED = "undecided"
    NOT_ENOUGH = "not-enough"


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One question: the reading that answers it, how a person would ask by hand, and where each verdict leads."""

    ask: str
    reading: str
    branches: dict[str, str]
    by_hand: str = msgspec.field(name="by hand", default="")


Template = Literal["exclude", "restart", "stop"]
"""The commands that only the site knows: keys of the run file's `[actions]`."""

Contact = Literal["second_line", "hardware", "data", "numerics"]
"""Whom a run file names under `[contacts]`."""


class Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One thing to do, and in exactly one way.

    By the site's own command for it, by a command or query to paste, written as that of a step is, or, where a person
    has to decide, by asking somebody.
    """

    say: str
    command: Template | None = None
    by_hand: str = msgspec.field(name="by hand", default="")
    ask: Contact | None = None


class Conclusion(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A leaf. Its texts may hold what `TEXT_FIELDS` of `oncall.playbook.lint` names."""

    title: str
    ending: Ending
    cause: str
    actions: list[Action] = []
    escalate: str = ""


class Playbook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A decision tree. `alert` is the alert that calls for it; `start` names its first step."""

    playbook: str
    title: str
    start: str
    steps: dict[str, Step]
    conclusions: dict[str, Conclusion]
    alert: str = ""
