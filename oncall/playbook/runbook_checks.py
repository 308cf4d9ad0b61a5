"""The checks of a chapter: each question with what to paste, what its answers mean, and where each leads."""

import inspect
import re
from collections.abc import Iterator, Mapping

from oncall.playbook.by_hand import Command, Where, commands
from oncall.playbook.model import Playbook
from oncall.playbook.pasting import pasted
from oncall.playbook.runbook_block import Block, code, heading, item, query, text
from oncall.readings.registry import READINGS
from oncall.run.model import Run

_VERDICT = re.compile(r"`([\w-]+)`: (.*?)(?= `[\w-]+`: |$)")


def order_of(playbook: Playbook) -> list[str]:
    """The steps so that each branch leads onward, and the first branch to what comes next where that can be."""
    ended: list[str] = []
    _visit(playbook, playbook.start, ended)
    return ended[::-1]


def _visit(playbook: Playbook, name: str, ended: list[str]) -> None:
    if name in ended or name not in playbook.steps:
        return
    for target in reversed(playbook.steps[name].branches.values()):
        _visit(playbook, target, ended)
    ended.append(name)


def checks(run: Run, playbook: Playbook, order: list[str]) -> Iterator[Block]:
    """All checks of a playbook, numbered by their place in `order`."""
    for number, name in enumerate(order, 1):
        step = playbook.steps[name]
        yield heading(4, f"{number}. {step.ask}", f"{playbook.playbook}-{name}")
        for command in commands(run, step.by_hand):
            yield from to_paste(run, command)
        for verdict, meaning in meanings_of(step.reading).items():
            target = step.branches[verdict]
            known = playbook.conclusions.get(target)
            label = f"“{known.title}”" if known else f"check {order.index(target) + 1}"
            yield item(f"`{verdict}`: {meaning} →", f"{playbook.playbook}-{target}", label)


def meanings_of(reading: str) -> Mapping[str, str]:
    """What each verdict means, in the words and the order of the reading itself: `none of these` comes after those."""
    told = (inspect.getdoc(READINGS[reading].judge) or "").split("\n\n")
    words = next((" ".join(each.split()) for each in told if each.startswith("`")), "")
    return {name: meaning for name, meaning in _VERDICT.findall(words) if name in READINGS[reading].verdicts}


def to_paste(run: Run, command: Command, hosts: str | None = None) -> Iterator[Block]:
    """A command for the shell; a query for Prometheus, and for the shell too where the run file names its address."""
    shell = pasted(run, command, hosts)
    if command.where is Where.PROMETHEUS:
        yield text("In Prometheus:")
        yield query(command.text)
    if shell is not None:
        yield code(shell)
