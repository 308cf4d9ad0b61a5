"""What must hold of a playbook before it is walked."""

from collections.abc import Iterator

from oncall.playbook.alerts import alert_names
from oncall.playbook.lint_commands import lint_by_hand, unlisted_metrics
from oncall.playbook.model import Action, Ending, Playbook
from oncall.readings.finding import UNKNOWN
from oncall.readings.registry import READINGS
from oncall.run.strict import near
from oncall.run.templates import field_mistakes

Path = tuple[str, ...]

TEXT_FIELDS = ("run", "what", "hosts", "step", "second_line", "hardware", "data", "numerics")
"""What the texts of a conclusion may hold in braces."""


def lint(playbook: Playbook) -> Iterator[tuple[Path, str]]:
    """Every mistake as (path of the key, what is wrong and the mend)."""
    if playbook.start not in playbook.steps:
        yield ("start",), f"starts at `{playbook.start}`, which is no step{near(playbook.start, playbook.steps)}"
    if playbook.alert not in {"", *alert_names()} and (alike := near(playbook.alert, alert_names())):
        yield ("alert",), f"no rule is called `{playbook.alert}`{alike}"
    for name, step in playbook.steps.items():
        yield from _lint_step(playbook, name)
        if name in playbook.conclusions:
            yield ("conclusions", name), f"`{name}` is a step too; give the conclusion another name"
        if not step.ask.strip():
            yield ("steps", name, "ask"), "asks nothing; write the question"
    for name in playbook.conclusions:
        yield from _lint_conclusion(playbook, name)
    yield from _lint_reach(playbook)


def notes(playbook: Playbook) -> Iterator[str]:
    """What may be a mistake, or a site's own: an alert and metrics that are not among the shipped ones."""
    if playbook.alert not in {"", *alert_names()}:
        yield f"no shipped rule is called `{playbook.alert}`; it calls for this playbook if your Prometheus has one"
    told = [step.by_hand for step in playbook.steps.values()]
    told += [action.by_hand for leaf in playbook.conclusions.values() for action in leaf.actions]
    for name in sorted({name for text in told for name in unlisted_metrics(text)}):
        yield f"`{name}` is not among the shipped signals; it is there if your trainer writes such a field"


def _lint_step(playbook: Playbook, name: str) -> Iterator[tuple[Path, str]]:
    step, here = playbook.steps[name], ("steps", name)
    if not step.by_hand.strip():
        yield here, "has no `by hand`: give the command or query that a person would paste"
    yield from _lint_by_hand((*here, "by hand"), step.by_hand)
    reading = READINGS.get(step.reading)
    if reading is None:
        yield (*here, "reading"), f"there is no reading `{step.reading}`{near(step.reading, READINGS)}"
    else:
        lacking = [verdict for verdict in reading.verdicts if verdict not in step.branches]
        if lacking:
            why = "every step says where unknown goes" if lacking == [UNKNOWN] else f"`{step.reading}` may say so"
            yield (*here, "branches"), f"no branch for {', '.join(f'`{verdict}`' for verdict in lacking)}; {why}"
        for verdict in step.branches:
            if verdict not in reading.verdicts:
                alike = near(verdict, reading.verdicts)
                yield (*here, "branches", verdict), f"`{step.reading}` never says `{verdict}`{alike}"
    known = [*playbook.steps, *playbook.conclusions]
    for verdict, target in step.branches.items():
        if target not in known:
            mend = near(target, known) or "; add it to `steps` or `conclusions`"
            yield (*here, "branches", verdict), f"leads to `{target}`, which is nowhere{mend}"


def _lint_by_hand(here: Path, command: str) -> Iterator[tuple[Path, str]]:
    """A person without this program must be able to paste it."""
    if command.strip():
        yield from ((here, problem) for problem in lint_by_hand(command))


def _lint_conclusion(playbook: Playbook, name: str) -> Iterator[tuple[Path, str]]:
    leaf, here = playbook.conclusions[name], ("conclusions", name)
    if leaf.ending is not Ending.NOTHING_WRONG and not leaf.actions:
        yield here, "says nothing to do; give it `actions`"
    if leaf.ending is Ending.CAUSE_FOUND and not leaf.escalate.strip():
        yield here, "does not say when to call whom; give it `escalate`"
    texts: list[tuple[Path, str]] = [((*here, "cause"), leaf.cause), ((*here, "escalate"), leaf.escalate)]
    for index, action in enumerate(leaf.actions):
        place = (*here, "actions", str(index))
        texts.append(((*place, "say"), action.say))
        yield from _lint_action(place, action)
    for path, text in texts:
        yield from ((path, problem) for problem in field_mistakes(text, TEXT_FIELDS))


def _lint_action(here: Path, action: Action) -> Iterator[tuple[Path, str]]:
    """Whoever reads it has something to run or somebody to ask."""
    ways = [each for each in (action.command, action.by_hand.strip(), action.ask) if each]
    if not action.say.strip():
        yield (*here, "say"), "says nothing; write what to do"
    if not ways:
        yield here, "does not say how: give it `command`, `by hand` or, where a person decides, `ask`"
    if len(ways) > 1:
        yield here, "has more than one of `command`, `by hand` and `ask`; make it two actions"
    yield from _lint_by_hand((*here, "by hand"), action.by_hand)


def _lint_reach(playbook: Playbook) -> Iterator[tuple[Path, str]]:
    if playbook.start not in playbook.steps:
        return
    reached: set[str] = set()
    for cycle in _walk(playbook, playbook.start, (), reached):
        yield ("steps", cycle[0]), f"goes in a circle: {' → '.join(cycle)}; lead one of its branches elsewhere"
    lost = [name for name in playbook.steps if name not in reached]
    led_to = {target for name in lost for target in playbook.steps[name].branches.values()}
    for name in lost:
        yield ("steps", name), "no branch leads here; remove the step, or lead a branch to it"
    for name in playbook.conclusions:
        if name not in reached | led_to:
            yield ("conclusions", name), "no branch leads here; remove the conclusion, or lead a branch to it"


def _walk(playbook: Playbook, name: str, trail: Path, reached: set[str]) -> Iterator[Path]:
    if name in trail:
        yield (*trail[trail.index(name) :], name)
        return
    if name in reached:
        return
    step = playbook.steps.get(name)
    for target in step.branches.values() if step else ():
        yield from _walk(playbook, target, (*trail, name), reached)
    reached.add(name)
