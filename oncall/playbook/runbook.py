"""The on-call manual that the playbooks are: checks, actions and whom to call, filled in for one run."""

import inspect
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from oncall.playbook.alerts import AlertRule, rule_of
from oncall.playbook.by_hand import Command, Where, commands
from oncall.playbook.model import Action, Conclusion, Ending, Playbook
from oncall.playbook.texts import contact_texts
from oncall.readings.registry import READINGS
from oncall.run.model import Run
from oncall.run.templates import fill
from oncall.signals.panels import PANELS, Panel

_SERIES = re.compile(r"(?:run:)?(?:train|DCGM)_\w+(?::\w+)?")
_FOUND = re.compile(r"\{what\}[.;,]? ?")
_ENDINGS = {
    Ending.CAUSE_FOUND: "a cause",
    Ending.NOTHING_WRONG: "nothing is wrong",
    Ending.UNDECIDED: "undecided",
    Ending.NOT_ENOUGH: "not enough was seen",
}


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of the manual; `code` is for a shell, `query` for Prometheus.

    `level` is that of a heading; `anchor` names it, or what an item leads to.
    """

    kind: Literal["heading", "text", "item", "code", "query"]
    text: str
    level: int = 0
    anchor: str | None = None


def runbook(run: Run, playbooks: Sequence[Playbook]) -> tuple[Block, ...]:
    """The manual of a run, one chapter for each playbook, after a quick reference of the site."""
    blocks = [*_front(run), *(block for playbook in playbooks for block in _chapter(run, playbook))]
    return tuple(blocks)


def _front(run: Run) -> Iterator[Block]:
    yield _heading(1, f"Runbook of {run.name}", "top")
    yield Block("text", "Start here: this asks every node, walks the tree and says what broke and what to do.")
    yield Block("code", f"oncall {shlex.quote(run.name)} --triage")
    yield _heading(2, "Quick reference", "quick-reference")
    for label, value in _facts(run):
        yield Block("item", f"{label}: {value}")
    for label, name in (("Exclude a node", "exclude"), ("Restart", "restart"), ("Stop", "stop")):
        command = _command(run, name)
        yield Block(
            "text", f"{label}:" if command else f"{label}: the run file names no command (`[actions]`, `{name}`)."
        )
        if command:
            yield Block("code", command)
    if any((run.actions.exclude, run.actions.restart, run.actions.stop)):
        told = (
            "In these HOST is the node and STEP the step of the last good checkpoint; a triage prints them filled in."
        )
        yield Block("text", told)
    yield Block("text", "Ask all nodes at once (`clush` comes with oncall):")
    yield Block("code", _everywhere(run, "uptime"))


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    paths, limits, contacts = run.paths, run.thresholds, contact_texts(run.contacts)
    yield "Nodes", f"`{run.nodes}`"
    for label, path in (
        ("Logs", paths.logs),
        ("Flight Recorder dumps", paths.dumps and f"{paths.dumps}<rank>"),
        ("Dump pipes", paths.pipes and f"{paths.pipes}<rank>.pipe"),
        ("Checkpoints", paths.checkpoints),
    ):
        yield label, f"`{path}`" if path else "not named in the run file"
    yield "Rank map", f"`{run.ranks.file}`" if run.ranks.file else f"`oncall ranks {run.name}` asks the nodes"
    stopped = f"no step for {limits.stalled_s:g} s and {limits.stalled_factor:g} times the usual step"
    yield "Counts as stopped", stopped
    yield "Counts as a restart loop", f"{limits.restart_limit} restarts in {limits.restart_window_s / 60:g} min"
    for label, field in (
        ("Second line", "second_line"),
        ("Hardware", "hardware"),
        ("Data", "data"),
        ("Numerics", "numerics"),
    ):
        yield label, contacts[field]


def _chapter(run: Run, playbook: Playbook) -> Iterator[Block]:
    name = playbook.playbook
    yield _heading(2, f"{playbook.title} ({playbook.alert or name})", name)
    yield Block("code", f"oncall {shlex.quote(run.name)} --triage --playbook {shlex.quote(name)}")
    rule = rule_of(playbook.alert)
    if rule is not None:
        yield Block("text", f"Alert {rule.name} ({rule.severity}):")
        yield Block("query", rule.expression)
    yield from _panels(playbook, rule, run)
    yield _heading(3, "Checks", f"{name}-checks")
    order = _order(playbook)
    for number, step in enumerate(order, 1):
        yield from _check(run, playbook, number, step, order)
    yield _heading(3, "What to do", f"{name}-actions")
    for leaf in _leaves(playbook, order):
        yield from _leaf(run, playbook, leaf)


def _panels(playbook: Playbook, rule: AlertRule | None, run: Run) -> Iterator[Block]:
    """The panels that show a series of the alert, or of a query in the checks."""
    told = " ".join([rule.expression if rule else "", *(step.by_hand for step in playbook.steps.values())])
    series = {found.removeprefix("run:").split(":")[0] for found in _SERIES.findall(told)}
    shown = [panel for panel in PANELS if series & set(_SERIES.findall(" ".join(panel.queries.values())))]
    if shown:
        yield Block("text", "Panels:")
    for panel in shown:
        yield Block("item", f"{panel.row.value.capitalize()}, {panel.title}: `{_query(panel, run)}`")


def _query(panel: Panel, run: Run) -> str:
    train = run.prometheus.train or f'run="{run.name}"'
    first = next(iter(panel.queries.values()))
    return first.replace("$train", train).replace("$dcgm", run.prometheus.dcgm)


def _order(playbook: Playbook) -> list[str]:
    """Steps as a reader meets them: breadth first from the start."""
    order: list[str] = []
    ahead = [playbook.start]
    while ahead:
        name = ahead.pop(0)
        if name in playbook.steps and name not in order:
            order.append(name)
            ahead += playbook.steps[name].branches.values()
    return order


def _leaves(playbook: Playbook, order: Iterable[str]) -> list[str]:
    targets = (target for name in order for target in playbook.steps[name].branches.values())
    return [name for name in dict.fromkeys(targets) if name in playbook.conclusions]


def _check(run: Run, playbook: Playbook, number: int, name: str, order: list[str]) -> Iterator[Block]:
    step = playbook.steps[name]
    yield _heading(4, f"{number}. {step.ask}", f"{playbook.playbook}-{name}")
    for command in commands(run, step.by_hand):
        yield from _paste(run, command)
    verdicts = _verdicts(step.reading)
    if verdicts:
        yield Block("text", f"Answers: {verdicts}")
    for verdict, target in step.branches.items():
        known = playbook.conclusions.get(target)
        where = f"“{known.title}”" if known else f"check {order.index(target) + 1}"
        yield Block("item", f"{verdict}: {where}", anchor=f"{playbook.playbook}-{target}")


def _verdicts(reading: str) -> str:
    """What each verdict means, in the words of the reading itself; empty where it has none."""
    told = (inspect.getdoc(READINGS[reading].judge) or "").split("\n\n")
    return next((" ".join(paragraph.split()) for paragraph in told if paragraph.startswith("`")), "")


def _paste(run: Run, command: Command) -> Iterator[Block]:
    if command.where is Where.PROMETHEUS:
        url = run.prometheus.url
        yield Block("text", "In Prometheus:")
        yield Block("query", command.text)
        if url:
            query = shlex.quote(f"query={command.text}")
            yield Block("code", f"curl -sG {shlex.quote(url.rstrip('/') + '/api/v1/query')} --data-urlencode {query}")
    elif command.where is Where.DUMPS:
        yield Block("code", command.text if run.reach.via == "local" else _fetch(run))
    elif command.where is Where.HERE:
        yield Block("code", command.text)
    else:
        yield Block("code", _everywhere(run, command.text))


def _everywhere(run: Run, command: str) -> str:
    """A command put to all nodes at once; what it pipes into `oncall` runs here, since the nodes have none."""
    if run.reach.via == "local":
        return command
    remote, pipe, rest = command.partition(" | oncall ")
    return f"{_clush(run)} -- {_quoted(remote)}{pipe}{rest}"


def _fetch(run: Run) -> str:
    folder = shlex.quote(str(PurePosixPath(run.paths.dumps or "<paths.dumps>").parent))
    return f"mkdir -p dumps && {_clush(run)} --rcopy {folder} --dest dumps && oncall fr dumps/*"


def _clush(run: Run) -> str:
    options = [f"-l {shlex.quote(run.reach.user)}"] if run.reach.user else []
    ssh = [f"-p {run.reach.port}"] if run.reach.port else []
    ssh += [f"-i {run.reach.identity}"] if run.reach.identity else []
    ssh += [f"-J {run.reach.jump}"] if run.reach.jump else []
    options += [f"-o {shlex.quote(' '.join(ssh))}"] if ssh else []
    return " ".join(["clush", "-bw", shlex.quote(run.nodes), *options])


def _quoted(command: str) -> str:
    """A command as one word: in double quotes where it holds single ones and nothing that the shell would expand."""
    return f'"{command}"' if "'" in command and not set(command) & set('$`"\\!') else shlex.quote(command)


def _leaf(run: Run, playbook: Playbook, name: str) -> Iterator[Block]:
    leaf: Conclusion = playbook.conclusions[name]
    texts = {
        "run": run.name,
        "what": "what was found",
        "hosts": "the hosts named",
        "step": "",
        **contact_texts(run.contacts),
    }
    yield _heading(4, leaf.title, f"{playbook.playbook}-{name}")
    yield Block("text", f"{_cause(leaf.cause, texts)}Answer: {_ENDINGS[leaf.ending]}.")
    for number, action in enumerate(leaf.actions, 1):
        yield from _action(run, number, action, texts)
    if leaf.escalate:
        yield Block("text", f"Escalate: {leaf.escalate.format_map(texts)}")


def _cause(cause: str, texts: dict[str, str]) -> str:
    """What is said of the cause beyond what only an incident can tell."""
    rest = _FOUND.sub("", cause).format_map(texts).strip()
    return f"{rest[:1].upper()}{rest[1:]} " if rest else ""


def _action(run: Run, number: int, action: Action, texts: dict[str, str]) -> Iterator[Block]:
    yield Block("text", f"{number}. {action.say.format_map(texts)}")
    command = _command(run, action.command) if action.command else None
    if command:
        yield Block("code", command)


def _command(run: Run, name: str) -> str | None:
    """The site's command, with HOST and STEP where only the incident can tell."""
    template: str | None = getattr(run.actions, name)
    if not template:
        return None
    filled = fill(template, run.name, ("HOST",), {"step": " (step STEP)", "what": "found on call"})
    return filled[0]


def _heading(level: int, text: str, anchor: str) -> Block:
    return Block("heading", text, level, anchor)
