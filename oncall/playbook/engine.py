"""Walks a playbook: asks for evidence, has it judged, follows the branch, until there is a conclusion."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from oncall.bundle.evidence import Evidence
from oncall.playbook.events import Concluded, StepJudged, StepStarted, WalkEvent
from oncall.playbook.model import Conclusion, Playbook
from oncall.readings.case import Case
from oncall.readings.finding import Finding, Judgement
from oncall.readings.placement import settle_ranks
from oncall.readings.registry import READINGS

Listener = Callable[[WalkEvent], None]

_WHO_IS_WHERE = ("processes", "gpus")
"""Needed before any step: which rank is which process, on which host and GPU."""


class Source(Protocol):
    """Where evidence comes from: the nodes, or a bundle."""

    async def evidence(self, probe: str, case: Case) -> Evidence | None:
        """What a probe brought, waiting for it at most until the triage's deadline; None where it cannot be had."""
        ...


@dataclass(frozen=True, slots=True)
class WalkedStep:
    """One step that was walked: the question, the verdict, and where it led."""

    step: str
    ask: str
    by_hand: str
    probes: tuple[str, ...]
    judgement: Judgement
    leads_to: str


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


async def walk(playbook: Playbook, source: Source, case: Case, listen: Listener) -> Walk:
    """Walk a playbook from its start to a conclusion.

    `case` gathers the evidence and the findings; `listen` hears each event as it happens.
    """
    steps: list[WalkedStep] = []
    await _gather(_WHO_IS_WHERE, source, case)
    here = playbook.start
    while (step := playbook.steps.get(here)) is not None:
        listen(StepStarted(at=datetime.now(UTC), step=here, ask=step.ask))
        reading = READINGS[step.reading]
        await _gather(reading.needs, source, case)
        judgement = reading.judge(case)
        case.findings += tuple(finding for finding in judgement.findings if finding not in case.findings)
        leads_to = step.branches[judgement.verdict]
        steps.append(WalkedStep(here, step.ask, step.by_hand, reading.needs, judgement, leads_to))
        listen(
            StepJudged(
                at=datetime.now(UTC),
                step=here,
                verdict=judgement.verdict,
                reason=judgement.reason,
                findings=judgement.findings,
                leads_to=leads_to,
            )
        )
        here = leads_to
    listen(Concluded(at=datetime.now(UTC), conclusion=here))
    return Walk(playbook, tuple(steps), here, case)


async def _gather(probes: tuple[str, ...], source: Source, case: Case) -> None:
    for probe in probes:
        evidence = await source.evidence(probe, case)
        if evidence is not None and evidence is not case.evidence(probe):
            case.add(evidence)
            if probe in _WHO_IS_WHERE:
                case.ranks = settle_ranks(case)
