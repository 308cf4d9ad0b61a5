"""What the screens are given: one immutable picture of a triage, made from a walk's events and its account."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncall.playbook.model import Playbook
    from oncall.readings.finding import Judgement
    from oncall.report.journal import JournalLine
    from oncall.report.model import Account, Report


@dataclass(frozen=True, slots=True)
class ProbeProgress:
    """How far one probe is. `missing` maps a host to why it did not answer; `took_s` is the slowest answer so far."""

    name: str
    asked: int
    answered: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)
    finished: bool = False
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Start:
    """What is known before anything is read: what the command line and the bundle's manifest say."""

    run: str
    started: datetime
    bundle: str
    live: bool
    read_only: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of a triage.

    `here` is the step being walked, `proposal` the judgement that waits for the operator's word in guided mode.
    `before` is the report of the same run that this one can be laid beside. `problem` says why nothing more will
    come, `mishap` what failed beside a walk that goes on.
    """

    start: Start
    playbook: "Playbook | None" = None
    playbooks: tuple[str, ...] = ()
    hosts: int | None = None
    probes: tuple[ProbeProgress, ...] = ()
    here: str | None = None
    guided: bool = False
    proposal: "Judgement | None" = None
    waiting: str | None = None
    account: "Account | None" = None
    report: "Report | None" = None
    before: "Report | None" = None
    journal: "tuple[JournalLine, ...]" = ()
    problem: str | None = None
    mishap: str | None = None

    @property
    def known(self) -> "Account | None":
        """The report where the walk has ended, else the account so far."""
        return self.report or self.account


def with_probe(snapshot: Snapshot, probe: ProbeProgress) -> Snapshot:
    """The snapshot with this probe's progress in place of what was known of it."""
    known = {each.name: each for each in snapshot.probes}
    known[probe.name] = probe
    return replace(snapshot, probes=tuple(known.values()))


def probe_of(snapshot: Snapshot, name: str) -> ProbeProgress | None:
    """The progress of a probe, None where it was not put yet."""
    return next((each for each in snapshot.probes if each.name == name), None)
