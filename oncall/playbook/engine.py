"""Walks a playbook: asks for evidence, has it judged, follows the branch, until there is a conclusion."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from oncall.bundle.evidence import Evidence
from oncall.playbook.events import Concluded, StepJudged, SteppedBack, StepStarted, WalkEvent
from oncall.playbook.model import Conclusion, Playbook, Step
from oncall.probes.catalogue import CHEAP, SERVERS
from oncall.readings.case import Case
from oncall.readings.finding import Finding, Judgement, Role, unknown
from oncall.readings.placement import settle_ranks
from oncall.readings.registry import READINGS, Reading

Listener = Callable[[WalkEvent], None]

_PATIENCE_S = 1.5

_WHO_IS_WHERE = ("processes", "gpus")
"""Needed before any step: which rank is which process, on which host and GPU."""


class Source(Protocol):
    """Where evidence comes from: the nodes, or a bundle."""

    async def evidence(self, probe: str, case: Case, *, patience_s: float | None = None) -> Evidence | None:
        """What a probe brought; None where it cannot be had.

        Waits for all of it until the triage's deadline, or at most `patience_s` seconds. As long as nothing new has
        arrived the same object is returned.
        """
        ...


@dataclass(frozen=True, slots=True)
class Overruling:
    """An operator's own verdict on a step, and why."""

    verdict: str
    reason: str


@dataclass(frozen=True, slots=True)
class WalkedStep:
    """One step that was walked: the question, the reading's judgement, the operator's where it differs, the way on."""

    step: str
    ask: str
    by_hand: str
    probes: tuple[str, ...]
    judgement: Judgement
    overruling: Overruling | None
    leads_to: str

    @property
    def verdict(self) -> str:
        """The verdict that counts: the operator's, else the reading's."""
        return self.overruling.verdict if self.overruling else self.judgement.verdict


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk that has ended: its steps in order and the conclusion."""

    playbook: Playbook
    steps: tuple[WalkedStep, ...]
    conclusion_id: str
    case: Case

    @property
    def conclusion(self) -> Conclusion:
        """The leaf that was reached."""
        return self.playbook.conclusions[self.conclusion_id]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings in the order in which they were made, each once."""
        return self.case.findings


class Walker:
    """A walk under way, one step at a time: `judge` the step, then `follow` its verdict or the operator's.

    `case` gathers the evidence and the findings; `listen` hears each event as it happens. `here` names the step that
    comes next, or the conclusion once there is one.
    """

    def __init__(self, playbook: Playbook, source: Source, case: Case, listen: Listener) -> None:
        self.playbook = playbook
        self.case = case
        self.here = playbook.start
        self.steps: list[WalkedStep] = []
        self._source = source
        self._listen = listen

    @property
    def step(self) -> Step | None:
        """The step that comes next; None when the walk has ended."""
        return self.playbook.steps.get(self.here)

    async def judge(self) -> Judgement:
        """Gather what the next step needs and have it judged. Judging again sees what has arrived since."""
        step = self._next()
        self._listen(StepStarted(at=datetime.now(UTC), step=self.here, ask=step.ask))
        reading = READINGS[step.reading]
        await _gather((*_needed_first(reading, self.case), *reading.needs), self._source, self.case)
        judgement = _judge(reading, self.case)
        if self.case.evidence("processes") is None and any(each.role is Role.ORIGIN for each in judgement.findings):
            # Whom it accuses stands in the run's own file, which may be of another start of the job.
            await _gather(_WHO_IS_WHERE, self._source, self.case)
            judgement = _judge(reading, self.case)
        return judgement

    def follow(self, judgement: Judgement, overruling: Overruling | None = None) -> None:
        """Take the branch of a judgement, or of the operator's verdict instead.

        Raises KeyError where the step has no branch for the operator's verdict.
        """
        step, here = self._next(), self.here
        leads_to = step.branches[overruling.verdict if overruling else judgement.verdict]
        probes = READINGS[step.reading].needs
        self.steps.append(WalkedStep(here, step.ask, step.by_hand, probes, judgement, overruling, leads_to))
        self._settle(leads_to)
        self._listen(
            StepJudged(
                at=datetime.now(UTC),
                step=here,
                verdict=self.steps[-1].verdict,
                reason=judgement.reason,
                findings=judgement.findings,
                leads_to=leads_to,
                overruled_because=overruling.reason if overruling else None,
            )
        )
        if self.step is None:
            self._listen(Concluded(at=datetime.now(UTC), conclusion=leads_to))

    def back(self) -> None:
        """Take the last step back; nothing happens at the start."""
        if self.steps:
            undone = self.steps.pop()
            self._settle(undone.step)
            self._listen(SteppedBack(at=datetime.now(UTC), step=undone.step))

    async def ended(self) -> Walk:
        """The whole walk, once it has come to a conclusion.

        What the walk did not need but has been asked for is taken along, if it is there within moments: it fills the
        rows of the suspects.
        """
        await take_along(self._source, self.case, patience_s=_PATIENCE_S)
        return Walk(self.playbook, tuple(self.steps), self.here, self.case)

    def _next(self) -> Step:
        step = self.step
        if step is None:
            raise ValueError(f"the walk has ended at {self.here}")
        return step

    def _settle(self, here: str) -> None:
        self.here = here
        found = (finding for step in self.steps for finding in step.judgement.findings)
        self.case.findings = tuple(dict.fromkeys(found))


async def walk(
    playbook: Playbook,
    source: Source,
    case: Case,
    listen: Listener,
    overrulings: Mapping[str, Overruling] | None = None,
) -> Walk:
    """Walk a playbook from its start to a conclusion, by the readings alone but where an operator overruled them.

    `overrulings` maps a step to the operator's verdict; one that the step has no branch for is passed over.
    """
    walker = Walker(playbook, source, case, listen)
    while (step := walker.step) is not None:
        overruling = (overrulings or {}).get(walker.here)
        known = overruling is not None and overruling.verdict in step.branches
        walker.follow(await walker.judge(), overruling if known else None)
    return await walker.ended()


def _needed_first(reading: Reading, case: Case) -> tuple[str, ...]:
    """What only servers answer waits for no node where the run file tells who is where, until somebody is accused."""
    asks_servers = bool(reading.needs) and set(reading.needs) <= set(SERVERS)
    return () if asks_servers and case.given_ranks is not None else _WHO_IS_WHERE


def _judge(reading: Reading, case: Case) -> Judgement:
    """A reading that fails is a reading that does not know: the walk goes on with the others.

    With ONCALL_DEBUG set it ends the walk, so that where it failed can be seen.
    """
    try:
        return reading.judge(case)
    except Exception as error:
        if os.environ.get("ONCALL_DEBUG"):
            raise
        return unknown(f"the reading `{reading.name}` failed on this evidence: {type(error).__name__}: {error}")


async def take_along(source: Source, case: Case, *, patience_s: float = 0.0) -> None:
    """Add to the case what the probes that always run have brought, waiting at most `patience_s` seconds for them."""
    await _gather((*CHEAP, *SERVERS), source, case, patience_s=patience_s)


async def _gather(probes: tuple[str, ...], source: Source, case: Case, *, patience_s: float | None = None) -> None:
    brought = await asyncio.gather(*(source.evidence(probe, case, patience_s=patience_s) for probe in probes))
    for probe, evidence in zip(probes, brought, strict=True):
        if evidence is not None and evidence is not case.evidence(probe):
            case.add(evidence)
            if probe in _WHO_IS_WHERE:
                case.ranks = settle_ranks(case)
