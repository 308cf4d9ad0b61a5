"""Makes the account of an incident from the steps walked so far: what is known, before or after the conclusion."""

from collections.abc import Sequence

from oncall.playbook.by_hand import ready
from oncall.playbook.engine import WalkedStep
from oncall.probes.catalogue import PROBES
from oncall.readings.alert_set import alerts
from oncall.readings.case import Case
from oncall.readings.checkpoints import newest_checkpoint
from oncall.readings.finding import Finding, Role
from oncall.readings.job_state import job_state
from oncall.readings.progress import Progress, newest_step, stands_still
from oncall.readings.suspects import suspect
from oncall.readings.symptom import symptom
from oncall.report.metric_panels import metric_panels, metrics_last_step, usual_step_s
from oncall.report.model import Account, Cost, LastStep, NumberedFinding, ProbeCoverage, State, StepReport
from oncall.report.seen import seen
from oncall.run.nodes import fold_ranks

_NAMES_WITHOUT_RANKS = {"restarting": "restarting", "job_gone": "job-gone"}
"""Kinds of findings that carry a conclusion though they name no rank, and the verdict by which they do."""
_FAULTS = ("gpu_fault", "host_fault")
_MOST_SUSPECTS = 32


def carrying(steps: Sequence[WalkedStep]) -> tuple[Finding, ...]:
    """The findings that a conclusion rests on: of the last step that named origins, faults of the hardware first."""
    for step in reversed(steps):
        origins = tuple(f for f in step.judgement.findings if _carries(f, step.verdict))
        if origins and (step.verdict == step.judgement.verdict or origins[0].kind not in _FAULTS):
            return origins
    return ()


def _carries(finding: Finding, verdict: str) -> bool:
    return finding.role is Role.ORIGIN or _NAMES_WITHOUT_RANKS.get(finding.kind) == verdict


def number(findings: Sequence[Finding]) -> dict[Finding, str]:
    """Finding → the name by which it is cited."""
    return {finding: f"F{position}" for position, finding in enumerate(findings, 1)}


def build_account(
    case: Case, steps: Sequence[WalkedStep], origins: tuple[Finding, ...], *, playbook: str, state: State, bundle: str
) -> Account:
    """All that is known after these steps. `origins` are the findings whose ranks are the suspects."""
    names = number(case.findings)
    ranks = sorted({rank for finding in origins for rank in finding.ranks})
    waiting = {rank for finding in case.findings if finding.role is Role.VICTIM for rank in finding.ranks}
    step = newest_step(case)
    checkpoint = newest_checkpoint(case)
    coverage = _coverage(case, steps)
    return Account(
        run=case.run.name,
        started=case.now,
        playbook=playbook,
        state=state,
        last_step=_last_step(case, step) or metrics_last_step(case),
        cost=_cost(case, step),
        suspects=tuple(suspect(case, rank) for rank in ranks[:_MOST_SUSPECTS]),
        waiting_ranks=fold_ranks(waiting - set(ranks)),
        unseen_ranks=fold_ranks(case.unseen_ranks("processes")),
        world_size=case.ranks.world_size,
        rank_map=case.ranks.source,
        checkpoint_step=checkpoint.step if checkpoint else None,
        steps=_steps(case, steps, names),
        findings=tuple(NumberedFinding(id=name, finding=finding) for finding, name in names.items()),
        coverage=coverage,
        seen=seen(case, PROBES),
        bundle=bundle,
        panels=metric_panels(case),
        job=job_state(case, stands=state == "stopped"),
        symptom=symptom(case),
        alerts=alerts(case),
    )


def state_of(steps: Sequence[WalkedStep]) -> State:
    """What the steps say of the job; `unknown` where none says."""
    verdicts = {step.step: step.verdict for step in steps}
    if verdicts.get("progress") == "moving" or verdicts.get("slower") == "steady":
        return "running"
    if verdicts.get("slower") == "slower":
        return "slowed"
    if verdicts.get("restarting") == "restarting":
        return "restarting"
    if "job-gone" in verdicts.values():
        return "gone"
    stopped = verdicts.get("progress") == "stopped" or verdicts.get("slower") == "stalled"
    return "stopped" if stopped else "unknown"


def _last_step(case: Case, step: Progress | None) -> LastStep | None:
    """What the logs tell; what is normal the metrics of a good stretch tell better."""
    if step is None:
        return None
    age_s = None if step.age_s is None else round(step.age_s, 1)
    return LastStep(step=step.step, age_s=age_s, at_least=step.at_least, normal_s=usual_step_s(case) or step.normal_s)


def _steps(case: Case, steps: Sequence[WalkedStep], names: dict[Finding, str]) -> tuple[StepReport, ...]:
    return tuple(
        StepReport(
            step=step.step,
            ask=step.ask,
            verdict=step.verdict,
            read_as=step.judgement.verdict,
            reason=step.judgement.reason,
            overruled_because=step.overruling.reason if step.overruling else None,
            leads_to=step.leads_to,
            by_hand=by_hand(case, step.by_hand),
            findings=tuple(names[finding] for finding in step.judgement.findings),
        )
        for step in steps
    )


def by_hand(case: Case, command: str) -> str:
    """A step's command with the run's name and paths filled in."""
    return ready(case.run, command)


def _coverage(case: Case, steps: Sequence[WalkedStep]) -> dict[str, ProbeCoverage]:
    probes = dict.fromkeys(("processes", *(probe for step in steps for probe in step.probes)))
    covered = {probe: case.coverage(probe) for probe in probes}
    return {
        probe: ProbeCoverage(asked=len(each.asked), answered=len(each.answered), missing=dict(each.missing), of=each.of)
        for probe, each in covered.items()
        if each.asked
    }


def _cost(case: Case, step: Progress | None) -> Cost:
    """Idle time counts from the last step's end; a job that moves idles nowhere."""
    price, gpus = case.run.gpu_hour_usd, case.ranks.world_size
    idle_s = step.age_s if step is not None else None
    if step is not None and step.age_s is not None and not stands_still(case, step):
        idle_s = 0.0 if not step.at_least else None
    per_minute = None if price is None or gpus is None else price * gpus / 60
    usd = None if per_minute is None or idle_s is None else round(per_minute * idle_s / 60, 2)
    rounded = None if idle_s is None else round(idle_s, 1)
    return Cost(gpus=gpus, idle_s=rounded, usd=usd, usd_per_minute=None if per_minute is None else round(per_minute, 2))
