"""The on-call manual that the playbooks are: checks, actions and whom to call, filled in for one run."""

import re
import shlex
from collections.abc import Iterator, Sequence

from oncall.playbook.alerts import AlertRule, place_of, rule_of
from oncall.playbook.model import Playbook
from oncall.playbook.runbook_answers import answers
from oncall.playbook.runbook_block import Block, code, heading, item, query, text
from oncall.playbook.runbook_checks import checks, order_of
from oncall.playbook.runbook_site import site_pages
from oncall.run.model import Run
from oncall.signals.panels import PANELS, Panel

_SERIES = re.compile(r"(?:run:)?(?:train|DCGM)_\w+(?::\w+)?")


def runbook(run: Run, playbooks: Sequence[Playbook]) -> tuple[Block, ...]:
    """The manual of a run: the site, then a chapter for each playbook in the order of the shipped alert rules."""
    chapters = sorted(playbooks, key=lambda playbook: place_of(playbook.alert))
    return (*site_pages(run, chapters), *(block for playbook in chapters for block in _chapter(run, playbook)))


def _chapter(run: Run, playbook: Playbook) -> Iterator[Block]:
    name = playbook.playbook
    order = order_of(playbook)
    yield heading(2, playbook.title, name)
    yield text("All of this chapter in one command:")
    yield code(f"oncall {shlex.quote(run.name)} --triage --playbook {shlex.quote(name)}")
    yield heading(3, "Checks", f"{name}-checks")
    yield text("Begin at check 1; each answer says where to go on.")
    yield from checks(run, playbook, order)
    yield heading(3, "What to do", f"{name}-actions")
    yield from answers(run, playbook, order)
    yield from _signals(run, playbook)


def _signals(run: Run, playbook: Playbook) -> Iterator[Block]:
    """The alert that calls for this chapter, and the panels that show what it is about."""
    rule = rule_of(playbook.alert)
    panels = _panels(playbook, rule)
    if rule is None and not panels:
        return
    yield heading(3, "Alert and panels", f"{playbook.playbook}-signals")
    if rule is not None:
        yield text(f"{rule.name} ({rule.severity}) fires on:")
        yield query(rule.expression)
    for panel in panels:
        yield item(f"{panel.row.value}, {panel.title}: `{_query(panel, run)}`")


def _panels(playbook: Playbook, rule: AlertRule | None) -> list[Panel]:
    """The dashboard's panels that show a series of the alert, or of a query in the checks."""
    told = " ".join([rule.expression if rule else "", *(step.by_hand for step in playbook.steps.values())])
    series = {found.removeprefix("run:").split(":")[0] for found in _SERIES.findall(told)}
    return [panel for panel in PANELS if series & set(_SERIES.findall(" ".join(panel.queries.values())))]


def _query(panel: Panel, run: Run) -> str:
    train = run.prometheus.train or f'run="{run.name}"'
    first = next(iter(panel.queries.values()))
    return first.replace("$train", train).replace("$dcgm", run.prometheus.dcgm)
