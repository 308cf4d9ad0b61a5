"""Makes the report of a walk: which findings carry the conclusion, what to do, what it costs."""

from collections.abc import Iterable

from oncall.flight_recorder.model import Grade
from oncall.playbook.engine import Walk
from oncall.playbook.model import Action, Ending
from oncall.readings.case import Case
from oncall.readings.checkpoints import Checkpoint, newest_checkpoint
from oncall.readings.finding import Finding, Role
from oncall.readings.log_set import log_set
from oncall.readings.progress import Progress, newest_step, stalled_after_s
from oncall.readings.suspects import suspect
from oncall.report.model import (
    Cost,
    LastStep,
    NumberedFinding,
    ProbeCoverage,
    ReadyAction,
    Report,
    State,
    StepReport,
    Verdict,
)
from oncall.run.nodes import fold_hosts, fold_ranks
from oncall.run.templates import fill

_EXIT_CODES = {Ending.NOTHING_WRONG: 0, Ending.CAUSE_FOUND: 10, Ending.UNDECIDED: 11, Ending.NOT_ENOUGH: 12}
_FAULTS = ("gpu_fault", "host_fault")
_NAMES_WITHOUT_RANKS = ("restarting", "job_gone")
_GRADES = list(Grade)
_MOST_SUSPECTS = 32


def build_report(walk: Walk, *, bundle: str, took_s: float) -> Report:
    """The report of a walk that has ended. `took_s` is the time of the whole triage in seconds."""
    case = walk.case
    names = {finding: f"F{number}" for number, finding in enumerate(walk.findings, 1)}
    carrying = _carrying(walk)
    grade = max((finding.grade for finding in carrying), key=_GRADES.index, default=None)
    ending = Ending.UNDECIDED if grade is Grade.UNDECIDED else walk.conclusion.ending
    ranks = tuple(sorted({rank for finding in carrying for rank in finding.ranks}))
    hosts = tuple(dict.fromkeys(host for finding in carrying for host in finding.hosts))
    logs = case.view("logs", log_set)
    step = newest_step(logs) if logs else None
    checkpoint = newest_checkpoint(case)
    texts = _texts(case, carrying, hosts, checkpoint)
    suspects = tuple(suspect(case, rank) for rank in ranks[:_MOST_SUSPECTS])
    verdict = _verdict(walk, carrying, names, ending=ending, grade=grade, cause=walk.conclusion.cause.format_map(texts))
    return Report(
        run=case.run.name,
        started=case.now,
        playbook=walk.playbook.playbook,
        state=_state(walk),
        headline=_headline(verdict),
        exit_code=_EXIT_CODES[ending],
        verdict=verdict,
        suspects=suspects,
        waiting_ranks=fold_ranks({r for f in walk.findings if f.role is Role.VICTIM for r in f.ranks} - set(ranks)),
        unseen_ranks=fold_ranks(case.unseen_ranks("processes")),
        world_size=case.ranks.world_size,
        rank_map=case.ranks.source,
        last_step=_last_step(step),
        checkpoint_step=checkpoint.step if checkpoint else None,
        actions=tuple(_actions(case, walk.conclusion.actions, hosts, texts)),
        escalate=walk.conclusion.escalate.format_map(texts),
        steps=_steps(walk, names),
        findings=tuple(NumberedFinding(id=names[finding], finding=finding) for finding in walk.findings),
        coverage=_coverage(walk),
        cost=_cost(walk, step),
        bundle=bundle,
        took_s=round(took_s, 2),
    )


def _carrying(walk: Walk) -> tuple[Finding, ...]:
    """The findings that the conclusion rests on: of the last step that named origins, faults of the hardware first."""
    if walk.conclusion.ending in {Ending.NOTHING_WRONG, Ending.NOT_ENOUGH}:
        return ()
    for step in reversed(walk.steps):
        origins = tuple(f for f in step.judgement.findings if f.role is Role.ORIGIN or f.kind in _NAMES_WITHOUT_RANKS)
        if origins and (step.verdict == "fault" or origins[0].kind not in _FAULTS):
            return origins
    return ()


def _verdict(
    walk: Walk,
    carrying: tuple[Finding, ...],
    names: dict[Finding, str],
    *,
    ending: Ending,
    grade: Grade | None,
    cause: str,
) -> Verdict:
    first = carrying[0] if carrying else None
    ranks = tuple(sorted({rank for finding in carrying for rank in finding.ranks}))
    seen = [finding for finding in walk.findings if set(finding.ranks) & set(ranks)]
    kind = first.kind if first else "none" if ending is Ending.NOTHING_WRONG else None
    return Verdict(
        conclusion=walk.conclusion_id,
        title=walk.conclusion.title,
        ending=ending,
        cause=cause,
        kind=kind,
        grade=grade,
        ranks=ranks,
        hosts=tuple(dict.fromkeys(host for finding in carrying for host in finding.hosts)),
        frame=next((finding.frame for finding in (*carrying, *seen) if finding.frame), None),
        doing=next((finding.doing for finding in (*carrying, *seen) if finding.doing), None),
        since=min((finding.time for finding in carrying if finding.time), default=None),
        rests_on=tuple(names[finding] for finding in dict.fromkeys((*carrying, *seen))),
        against=tuple(names[finding] for finding in walk.findings if finding.role is Role.AGAINST),
    )


def _texts(
    case: Case, carrying: tuple[Finding, ...], hosts: tuple[str, ...], checkpoint: Checkpoint | None
) -> dict[str, str]:
    contacts = case.run.contacts
    return {
        "run": case.run.name,
        "what": "; ".join(finding.text for finding in carrying) or "what was seen does not tell",
        "hosts": fold_hosts(hosts) or "the host",
        "step": f" (step {checkpoint.step:,})" if checkpoint else "",
        "second_line": contacts.second_line or "the second line",
        "hardware": contacts.hardware or contacts.second_line or "those who own the hardware",
        "data": contacts.data or contacts.second_line or "the owner of the data",
        "numerics": contacts.numerics or contacts.second_line or "the owner of the model",
    }


def _headline(verdict: Verdict) -> str:
    grade = f" [{verdict.grade}]" if verdict.grade else ""
    return f"{verdict.title}. {_capital(verdict.cause)}{grade}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _state(walk: Walk) -> State:
    verdicts = {step.step: step.verdict for step in walk.steps}
    if verdicts.get("progress") == "moving":
        return "running"
    if verdicts.get("restarting") == "restarting":
        return "restarting"
    if "job-gone" in verdicts.values():
        return "gone"
    return "stopped" if walk.conclusion.ending is not Ending.NOT_ENOUGH else "unknown"


def _last_step(step: Progress | None) -> LastStep | None:
    if step is None:
        return None
    age_s = None if step.age_s is None else round(step.age_s, 1)
    return LastStep(step=step.step, age_s=age_s, at_least=step.at_least, normal_s=step.normal_s)


def _actions(
    case: Case, actions: Iterable[Action], hosts: tuple[str, ...], texts: dict[str, str]
) -> Iterable[ReadyAction]:
    for action in actions:
        say = action.say.format_map(texts)
        template = getattr(case.run.actions, action.command) if action.command else None
        commands = fill(template, case.run.name, hosts, texts) if template else [None]
        for command in commands:
            yield ReadyAction(say=say, command=command)


def _steps(walk: Walk, names: dict[Finding, str]) -> tuple[StepReport, ...]:
    return tuple(
        StepReport(
            step=step.step,
            ask=step.ask,
            verdict=step.verdict,
            reason=step.judgement.reason,
            overruled_because=step.overruling.reason if step.overruling else None,
            leads_to=step.leads_to,
            by_hand=_by_hand(walk.case, step.by_hand),
            findings=tuple(names[finding] for finding in step.judgement.findings),
        )
        for step in walk.steps
    )


def _by_hand(case: Case, command: str) -> str:
    paths = case.run.paths
    for field, value in (("run", case.run.name), ("logs", paths.logs), ("dumps", paths.dumps)):
        command = command.replace("{" + field + "}", value or f"<paths.{field}>")
    return command


def _coverage(walk: Walk) -> dict[str, ProbeCoverage]:
    probes = dict.fromkeys(("processes", *(probe for step in walk.steps for probe in step.probes)))
    covered = {probe: walk.case.coverage(probe) for probe in probes}
    return {
        probe: ProbeCoverage(asked=len(each.asked), answered=len(each.answered), missing=dict(each.missing))
        for probe, each in covered.items()
        if each.asked
    }


def _cost(walk: Walk, step: Progress | None) -> Cost:
    """Idle time counts from the last step's end; a job that moves idles nowhere."""
    case = walk.case
    price, gpus = case.run.gpu_hour_usd, case.ranks.world_size
    idle_s = step.age_s if step is not None else None
    if step is not None and step.age_s is not None and step.age_s <= stalled_after_s(case, step.normal_s):
        idle_s = 0.0 if not step.at_least else None
    per_minute = None if price is None or gpus is None else price * gpus / 60
    usd = None if per_minute is None or idle_s is None else round(per_minute * idle_s / 60, 2)
    rounded = None if idle_s is None else round(idle_s, 1)
    return Cost(gpus=gpus, idle_s=rounded, usd=usd, usd_per_minute=None if per_minute is None else round(per_minute, 2))
