"""What a conclusion says to do, filled in with what this incident tells, ready to paste."""

from collections.abc import Iterable, Iterator, Mapping

from oncall.playbook.by_hand import commands
from oncall.playbook.model import Action
from oncall.playbook.pasting import pasted
from oncall.playbook.texts import said
from oncall.readings.case import Case
from oncall.readings.checkpoints import newest_checkpoint
from oncall.report.model import ReadyAction
from oncall.run.nodes import fold_hosts
from oncall.run.templates import fill


def ready_actions(
    case: Case, actions: Iterable[Action], hosts: tuple[str, ...], texts: Mapping[str, str]
) -> Iterator[ReadyAction]:
    """Each action once for each of its commands; `hosts` are those that the conclusion names."""
    for action in actions:
        say = said(action, texts)
        ready = list(_by_hand(case, action, hosts) or _of_site(case, action, hosts, texts)) or [(None, None)]
        yield from (ReadyAction(say=say, command=command, target=target) for command, target in ready)


def _by_hand(case: Case, action: Action, hosts: tuple[str, ...]) -> list[tuple[str | None, str | None]]:
    """What a person pastes; it has no target, so that the console runs none of it."""
    told = commands(case.run, action.by_hand) if action.by_hand else ()
    return [(pasted(case.run, command, fold_hosts(hosts) or None) or command.text, None) for command in told]


def _of_site(
    case: Case, action: Action, hosts: tuple[str, ...], texts: Mapping[str, str]
) -> Iterator[tuple[str | None, str | None]]:
    """The run file's own command, once for each host where it names one; none where it lacks what only logs tell."""
    template = getattr(case.run.actions, action.command) if action.command else None
    if not template or ("{step}" in template and _has_no_way_back(case)):
        return
    whole = fold_hosts(hosts) if "{hosts}" in template else case.run.name
    targets = hosts if "{host}" in template else (whole,)
    yield from zip(fill(template, case.run.name, hosts, texts), targets, strict=True)


def _has_no_way_back(case: Case) -> bool:
    """Whether the newest checkpoint may hold what ruined the loss, and no older one is known."""
    lost = any(finding.kind == "loss_not_finite" for finding in case.findings)
    return lost and newest_checkpoint(case) is None
