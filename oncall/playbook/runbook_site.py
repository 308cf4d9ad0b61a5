"""The first pages of the on-call manual: where to start, the site's paths and commands, and whom to call."""

import shlex
from collections.abc import Iterator, Sequence

from oncall.playbook.alerts import rule_of
from oncall.playbook.by_hand import placeholder
from oncall.playbook.model import Playbook
from oncall.playbook.pasting import on_nodes
from oncall.playbook.runbook_block import Block, code, heading, item, text
from oncall.playbook.site_commands import LABELS, own_command, site_commands
from oncall.run.model import Run

_CAPITALS = {
    "HOST": "the node that the answer names, or several as `node[007-009]`",
    "STEP": "the step of the last good checkpoint",
    "JOB": "the file that the job was started from",
}
_PATHS = {"logs": "Logs", "dumps": "Flight Recorder dumps", "pipes": "Dump pipes", "checkpoints": "Checkpoints"}
_CONTACTS = {"second_line": "Second line", "hardware": "Hardware", "data": "Data", "numerics": "Model and numerics"}


def site_pages(run: Run, playbooks: Sequence[Playbook]) -> Iterator[Block]:
    """All that comes before the first chapter."""
    yield heading(1, f"Runbook of {run.name}", "top")
    yield text("Start here. This asks every node, answers the checks below and says what broke and what to do:")
    yield code(f"oncall {shlex.quote(run.name)} --triage")
    yield text("By hand, start at the chapter of the alert:")
    for playbook in playbooks:
        yield item(f"{_alert(playbook)}:", playbook.playbook, playbook.title)
    yield item("Paths, limits, and how to exclude, restart and stop:", "quick-reference", "Quick reference")
    yield item("Whom to call:", "contacts", "Contacts")
    yield from _quick_reference(run)
    yield from _contacts(run)


def _alert(playbook: Playbook) -> str:
    rule = rule_of(playbook.alert)
    return f"{playbook.alert or playbook.playbook}{f' ({rule.severity})' if rule else ''}"


def _quick_reference(run: Run) -> Iterator[Block]:
    yield heading(2, "Quick reference", "quick-reference")
    for label, value in _facts(run):
        yield item(f"{label}: {value}")
    for name, label in LABELS.items():
        own = own_command(run, name)
        yield text(f"{label}:" if own else f"{label}; the run file names no command of this site (`actions.{name}`):")
        yield from (code(command) for command in site_commands(run, name))
    yield text("Ask all nodes at once (`clush` comes with `oncall`):")
    yield code(on_nodes(run, "uptime"))
    yield text("Replace words in capitals before a command is run; a triage prints them filled in:")
    told = " ".join(["HOST", *(each for name in LABELS for each in site_commands(run, name))])
    yield from (item(f"`{word}`: {meaning}") for word, meaning in _CAPITALS.items() if word in told)


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    limits = run.thresholds
    yield "Nodes", f"`{run.nodes}`"
    for name, label in _PATHS.items():
        path: str | None = getattr(run.paths, name)
        lacking = f"the run file does not say (`paths.{name}`); `{placeholder(name)}` stands for it"
        yield label, f"`{path}{_of_rank(name)}`" if path else lacking
    yield (
        "Rank map",
        f"`{run.ranks.file}`" if run.ranks.file else f"`oncall ranks {shlex.quote(run.name)}` asks the nodes",
    )
    yield (
        "Counts as stopped",
        f"no step for {limits.stalled_s:g} s and for {limits.stalled_factor:g} times the usual step",
    )
    yield "Counts as slow", f"a step takes {limits.slow_factor:g} times what it took before"
    yield "Counts as a restart loop", f"{limits.restart_limit} restarts in {limits.restart_window_s / 60:g} min"


def _of_rank(path: str) -> str:
    return {"dumps": "<rank>", "pipes": "<rank>.pipe"}.get(path, "")


def _contacts(run: Run) -> Iterator[Block]:
    yield heading(2, "Contacts", "contacts")
    for name, label in _CONTACTS.items():
        known: str | None = getattr(run.contacts, name)
        instead = "; call the second line" if name != "second_line" else ""
        yield item(f"{label}: {known or f'the run file names nobody (`contacts.{name}`){instead}'}")
