"""Makes the report of a walk: which findings carry the conclusion, what to do, what it costs."""

from collections.abc import Iterable

from oncall.flight_recorder.model import Grade
from oncall.playbook.engine import Walk, Walker
from oncall.playbook.model import Ending
from oncall.playbook.texts import contact_texts
from oncall.readings.case import Case
from oncall.readings.checkpoints import way_back
from oncall.readings.finding import Finding, Role
from oncall.report.account import build_account, by_hand, carrying, number, state_of
from oncall.report.certainty import grade_of, shows_a_stop
from oncall.report.journal import JournalLine
from oncall.report.model import Account, PlannedStep, Report, State, Verdict
from oncall.report.ready_actions import ready_actions
from oncall.run.nodes import fold_hosts

_EXIT_CODES = {Ending.NOTHING_WRONG: 0, Ending.CAUSE_FOUND: 10, Ending.UNDECIDED: 11, Ending.NOT_ENOUGH: 12}
_ENDINGS_WITHOUT_CAUSE = (Ending.NOTHING_WRONG, Ending.NOT_ENOUGH)


def build_report(walk: Walk, *, bundle: str, took_s: float, journal: tuple[JournalLine, ...] = ()) -> Report:
    """The report of a walk that has ended. `took_s` is the time of the whole triage in seconds."""
    case = walk.case
    origins = () if walk.conclusion.ending in _ENDINGS_WITHOUT_CAUSE else carrying(walk.steps)
    hosts = tuple(dict.fromkeys(host for finding in origins for host in finding.hosts))
    texts = _texts(walk, origins, hosts)
    grade = grade_of(walk, origins)
    ending = Ending.UNDECIDED if grade is Grade.UNDECIDED else walk.conclusion.ending
    cause = walk.conclusion.cause.format_map(texts)
    verdict = _verdict(walk, origins, number(walk.findings), ending=ending, grade=grade, cause=cause)
    account = build_account(
        case, walk.steps, origins, playbook=walk.playbook.playbook, state=_state(walk), bundle=bundle
    )
    return Report(
        **{field: getattr(account, field) for field in Account.__struct_fields__},
        headline=_headline(verdict, case),
        exit_code=_EXIT_CODES[ending],
        verdict=verdict,
        actions=tuple(ready_actions(case, walk.conclusion.actions, hosts, texts)),
        escalate=walk.conclusion.escalate.format_map(texts),
        took_s=round(took_s, 2),
        not_needed=tuple(_not_needed(walk)),
        journal=journal,
    )


def _not_needed(walk: Walk) -> Iterable[PlannedStep]:
    walked = {step.step for step in walk.steps}
    for name, step in walk.playbook.steps.items():
        if name not in walked:
            by_hand_ready = by_hand(walk.case, step.by_hand)
            yield PlannedStep(step=name, ask=step.ask, by_hand=by_hand_ready, branches=dict(step.branches))


def build_draft(walker: Walker, *, bundle: str) -> Account:
    """The account of a walk under way: all that a report says but its conclusion."""
    steps = walker.steps
    return build_account(
        walker.case,
        steps,
        carrying(steps),
        playbook=walker.playbook.playbook,
        state=state_of(steps),
        bundle=bundle,
    )


def _verdict(
    walk: Walk,
    origins: tuple[Finding, ...],
    names: dict[Finding, str],
    *,
    ending: Ending,
    grade: Grade | None,
    cause: str,
) -> Verdict:
    first = origins[0] if origins else None
    ranks = tuple(sorted({rank for finding in origins for rank in finding.ranks}))
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
        hosts=tuple(dict.fromkeys(host for finding in origins for host in finding.hosts)),
        frame=next((finding.frame for finding in (*origins, *seen) if finding.frame), None),
        doing=next((finding.doing for finding in (*origins, *seen) if finding.doing), None),
        since=min((finding.time for finding in origins if finding.time), default=None),
        rests_on=tuple(names[finding] for finding in dict.fromkeys((*origins, *seen))),
        against=tuple(names[finding] for finding in walk.findings if finding.role is Role.AGAINST),
    )


def _texts(walk: Walk, origins: tuple[Finding, ...], hosts: tuple[str, ...]) -> dict[str, str]:
    case, last = walk.case, walk.steps[-1]
    told = "; ".join(finding.text for finding in origins)
    if not told and last.overruling is not None:
        told = f"the operator says so: {last.overruling.reason}"
    return {
        "run": case.run.name,
        "what": told or "what was seen does not tell",
        "hosts": fold_hosts(hosts) or "the host",
        "step": way_back(case),
        **contact_texts(case.run.contacts),
    }


def _headline(verdict: Verdict, case: Case) -> str:
    """Title, ranks with their places where the cause does not name them itself, cause, grade."""
    who = case.name_ranks(verdict.ranks) if verdict.ranks else ""
    cause = verdict.cause if who in verdict.cause else f"{who}, {verdict.cause}"
    grade = f" [{verdict.grade}]" if verdict.grade else ""
    return f"{verdict.title}. {_capital(cause)}{grade}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _state(walk: Walk) -> State:
    told = state_of(walk.steps)
    asks_progress = walk.playbook.start == "progress"
    stands = told == "unknown" and asks_progress and shows_a_stop(walk.playbook, walk.steps)
    return "stopped" if stands else told
