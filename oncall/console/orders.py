"""What the operator can ask of a triage under way."""

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Guide:
    """Walk from the start with each verdict waiting for the operator's word, or go on without."""

    on: bool


@dataclass(frozen=True, slots=True)
class Confirm:
    """The proposed verdict holds."""


@dataclass(frozen=True, slots=True)
class Overrule:
    """The operator's own verdict instead of the proposed one, and why."""

    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class Back:
    """Take the last step back."""


@dataclass(frozen=True, slots=True)
class ChoosePlaybook:
    """Walk another playbook on the same evidence."""

    playbook: str


@dataclass(frozen=True, slots=True)
class RenewProbe:
    """Put a probe to the nodes once more, and walk again on what it brings."""

    probe: str


@dataclass(frozen=True, slots=True)
class RenewStep:
    """Put the probes of the step at hand to the nodes once more, and judge it on what they bring."""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Ask one node again what it did not answer."""

    host: str


@dataclass(frozen=True, slots=True)
class Note:
    """The operator's own words, for the timeline."""

    text: str


@dataclass(frozen=True, slots=True)
class Act:
    """Run one shown command; `host` is what the operator typed to confirm it."""

    command: str
    host: str


@dataclass(frozen=True, slots=True)
class ShowRaw:
    """The raw evidence of one rank."""

    what: Literal["stack", "dump"]
    rank: int


@dataclass(frozen=True, slots=True)
class FindEarlier:
    """The triage of the same run before this one, to lay beside it."""


Order: TypeAlias = (
    Guide
    | Confirm
    | Overrule
    | Back
    | ChoosePlaybook
    | RenewProbe
    | RenewStep
    | AskAgain
    | Note
    | Act
    | ShowRaw
    | FindEarlier
)
