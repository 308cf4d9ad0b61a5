"""The answers of a chapter: what each conclusion means, what to do with what to paste, and when to call whom."""

import re
from collections.abc import Iterable, Iterator, Mapping

from oncall.playbook.by_hand import commands
from oncall.playbook.model import Action, Conclusion, Ending, Playbook
from oncall.playbook.runbook_block import Block, code, heading, text
from oncall.playbook.runbook_checks import to_paste
from oncall.playbook.site_commands import site_commands
from oncall.playbook.texts import contact_texts, said
from oncall.run.model import Run

_FOUND = re.compile(r"\{what\}[.;,]? ?")
_HOST = "HOST"
_ENDINGS = {
    Ending.CAUSE_FOUND: "",
    Ending.NOTHING_WRONG: "There is nothing to do.",
    Ending.UNDECIDED: "This is not certain.",
    Ending.NOT_ENOUGH: "Too little was seen to name a cause.",
}


def answers(run: Run, playbook: Playbook, order: Iterable[str]) -> Iterator[Block]:
    """Every conclusion, in the order in which the checks lead to them."""
    texts = {"run": run.name, "what": "what was found", "hosts": _HOST, "step": "", **contact_texts(run.contacts)}
    targets = (target for name in order for target in playbook.steps[name].branches.values())
    for name in dict.fromkeys(targets):
        if name in playbook.conclusions:
            leaf = playbook.conclusions[name]
            yield heading(4, leaf.title, f"{playbook.playbook}-{name}")
            yield from _answer(run, leaf, texts)


def _answer(run: Run, leaf: Conclusion, texts: Mapping[str, str]) -> Iterator[Block]:
    meaning = f"{_cause(leaf.cause, texts)} {_ENDINGS[leaf.ending]}".strip()
    if meaning:
        yield text(meaning)
    for number, action in enumerate(leaf.actions, 1):
        yield text(f"{number}. {said(action, texts)}")
        yield from _how(run, action)
    if leaf.escalate:
        yield text(f"Escalate: {leaf.escalate.format_map(texts)}")


def _cause(cause: str, texts: Mapping[str, str]) -> str:
    """What is said of the cause beyond what only an incident can tell."""
    rest = _FOUND.sub("", cause).format_map(texts).strip()
    return rest[:1].upper() + rest[1:]


def _how(run: Run, action: Action) -> Iterator[Block]:
    if action.command:
        yield from (code(each) for each in site_commands(run, action.command))
    for command in commands(run, action.by_hand) if action.by_hand else ():
        yield from to_paste(run, command, _HOST)
