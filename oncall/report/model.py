"""The triage report as data: `--json` prints it, the text is made from it, and its JSON schema is published."""

from datetime import datetime
from typing import Literal

import msgspec

from oncall.flight_recorder.model import Grade
from oncall.playbook.model import Ending
from oncall.readings.alert_set import AlertRow
from oncall.readings.finding import Finding
from oncall.readings.job_state import JobState
from oncall.readings.suspects import Suspect
from oncall.readings.symptom import Symptom
from oncall.report.journal import JournalLine
from oncall.report.panels import Panel
from oncall.report.seen import Seen

SCHEMA = "oncall.triage/1"

State = Literal["running", "slowed", "stopped", "restarting", "gone", "unknown"]


class NumberedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding with the name by which steps and conclusions cite it."""

    id: str
    finding: Finding


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """One walked step: question, verdict, why, the findings it rests on, and how to ask the same by hand.

    `verdict` is the one that counts, `read_as` that of the evidence: an operator may have overruled it.
    """

    step: str
    ask: str
    verdict: str
    read_as: str
    reason: str
    overruled_because: str | None
    leads_to: str
    by_hand: str
    findings: tuple[str, ...]


class PlannedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step that was not walked: its question, how to ask it by hand, and where each verdict would have led."""

    step: str
    ask: str
    by_hand: str
    branches: dict[str, str]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `kind` is one of `oncall.readings.kinds`, None where no cause is named; so are ranks and hosts.

    `rests_on` names the findings; `against` those that speak against it.
    """

    conclusion: str
    title: str
    ending: Ending
    cause: str
    kind: str | None
    grade: Grade | None
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    frame: str | None
    doing: str | None
    since: datetime | None
    rests_on: tuple[str, ...]
    against: tuple[str, ...]


class ReadyAction(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do; `command` is ready to paste, None where a person decides or the run file has no template for it.

    `target` is what the site's own command is about: a host, folded hosts, or the run. The console asks for it typed
    out, and runs no other command.
    """

    say: str
    command: str | None
    target: str | None


class ProbeCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes (or queries) answered a probe, and why the others did not (host or query → reason)."""

    asked: int
    answered: int
    missing: dict[str, str]
    of: str = "nodes"


class LastStep(msgspec.Struct, frozen=True, kw_only=True):
    """The last step that a log shows. Times in seconds; `at_least` is true where `age_s` is only a lower bound."""

    step: int
    age_s: float | None
    at_least: bool
    normal_s: float | None


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What the stop has cost so far: idle GPUs, for how long in seconds, in US dollars; None where not known."""

    gpus: int | None
    idle_s: float | None
    usd: float | None
    usd_per_minute: float | None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an incident, whether or not the walk has ended. Times are UTC, durations in seconds.

    `symptom` is what the evidence calls for, whichever playbook is walked; `alerts` is None where nobody was asked.
    """

    run: str
    started: datetime
    playbook: str
    state: State
    last_step: LastStep | None
    cost: Cost
    suspects: tuple[Suspect, ...]
    waiting_ranks: str
    unseen_ranks: str
    world_size: int | None
    rank_map: str
    checkpoint_step: int | None
    steps: tuple[StepReport, ...]
    findings: tuple[NumberedFinding, ...]
    coverage: dict[str, ProbeCoverage]
    seen: Seen
    bundle: str
    panels: tuple[Panel, ...] = ()
    job: JobState | None = None
    symptom: Symptom | None = None
    alerts: tuple[AlertRow, ...] | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it was; None where it was not, or is no more."""

    what: str
    before: str | None
    now: str | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What is not as it was in an earlier triage of the same run, the answer first; `bundle` and `started` are its own.

    No changes mean that nothing changed.
    """

    bundle: str
    started: datetime
    changes: tuple[Change, ...]


class Report(Account, frozen=True, kw_only=True):
    """One triage, whole: the account of a walk that has ended, and its conclusion. Null is "not known".

    `not_needed` are the steps of the playbook that the walk passed by. `journal` is what this triage and its operator
    did, oldest first. `compared` is None where no comparison was asked for (`--compare`) or no earlier triage is there.
    """

    headline: str
    exit_code: int
    verdict: Verdict
    actions: tuple[ReadyAction, ...]
    escalate: str
    took_s: float
    not_needed: tuple[PlannedStep, ...] = ()
    journal: tuple[JournalLine, ...] = ()
    compared: Comparison | None = None
    schema: str = SCHEMA
