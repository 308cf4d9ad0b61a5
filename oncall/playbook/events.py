"""What a walk tells its listeners, in order. The console, the triage report and `events.jsonl` hear the same."""

from datetime import datetime
from typing import TypeAlias

import msgspec

from oncall.bundle.evidence import Outcome
from oncall.readings.finding import Finding


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    at: datetime


class ProbeStarted(_Event, frozen=True, kw_only=True, tag="probe-started"):
    """A probe was put to these hosts."""

    probe: str
    asked: tuple[str, ...]


class NodeAnswered(_Event, frozen=True, kw_only=True, tag="node-answered"):
    """One node's answer to a probe is in the bundle. `took_s` in seconds."""

    probe: str
    host: str
    outcome: Outcome
    reason: str | None
    took_s: float


class ProbeFinished(_Event, frozen=True, kw_only=True, tag="probe-finished"):
    """All answers that will come are there."""

    probe: str
    answered: int
    asked: int


class Waiting(_Event, frozen=True, kw_only=True, tag="waiting"):
    """Something that takes its time; `left_s` is at most how long, in seconds."""

    what: str
    left_s: float


class StepStarted(_Event, frozen=True, kw_only=True, tag="step-started"):
    """The walk has come to this step."""

    step: str
    ask: str


class StepJudged(_Event, frozen=True, kw_only=True, tag="step-judged"):
    """The step's verdict, why, its findings, and where the walk goes on; why, where the operator overruled it."""

    step: str
    verdict: str
    reason: str
    findings: tuple[Finding, ...]
    leads_to: str
    overruled_because: str | None = None


class SteppedBack(_Event, frozen=True, kw_only=True, tag="stepped-back"):
    """The operator took this step back; it comes next again."""

    step: str


class Concluded(_Event, frozen=True, kw_only=True, tag="concluded"):
    """The walk has come to a conclusion of the playbook."""

    conclusion: str


class WalkStarted(_Event, frozen=True, kw_only=True, tag="walk-started"):
    """An operator begins the playbook at its start; with `guided` each verdict waits for the operator's word."""

    playbook: str
    guided: bool


class Noted(_Event, frozen=True, kw_only=True, tag="noted"):
    """The operator's own words, kept with the incident."""

    text: str


class ActStarted(_Event, frozen=True, kw_only=True, tag="act-started"):
    """A command that the operator confirmed by typing `host` is about to run on the console's machine."""

    command: str
    host: str


class Acted(_Event, frozen=True, kw_only=True, tag="acted"):
    """How such a command ended.

    `exit_code` is None where it did not end in its time, or was `left`: still running when the console was left.
    `output` is the beginning of what it printed.
    """

    command: str
    host: str
    exit_code: int | None
    output: str
    left: bool = False


WalkEvent: TypeAlias = (
    ProbeStarted
    | NodeAnswered
    | ProbeFinished
    | Waiting
    | WalkStarted
    | StepStarted
    | StepJudged
    | SteppedBack
    | Concluded
    | Noted
    | ActStarted
    | Acted
)
