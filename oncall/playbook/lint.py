"""What must hold of a playbook before it is walked."""

import difflib
from collections.abc import Iterator

from oncall.playbook.model import Playbook
from oncall.readings.finding import UNKNOWN
from oncall.readings.registry import READINGS

Path = tuple[str, ...]


def lint(playbook: Playbook) -> Iterator[tuple[Path, str]]:
    """Every mistake as (path of the key, what is wrong and the mend)."""
    if playbook.start not in playbook.steps:
        yield ("start",), f"starts at `{playbook.start}`, which is no step{_near(playbook.start, playbook.steps)}"
    for name, step in playbook.steps.items():
        yield from _lint_step(playbook, name)
        if name in playbook.conclusions:
            yield ("conclusions", name), f"`{name}` is a step too; give the conclusion another name"
        if not step.ask.strip():
            yield ("steps", name, "ask"), "asks nothing"
    yield from _lint_reach(playbook)


def _lint_step(playbook: Playbook, name: str) -> Iterator[tuple[Path, str]]:
    step, here = playbook.steps[name], ("steps", name)
    reading = READINGS.get(step.reading)
    if reading is None:
        yield (*here, "reading"), f"there is no reading `{step.reading}`{_near(step.reading, READINGS)}"
    else:
        for verdict in reading.verdicts:
            if verdict not in step.branches:
                why = "every step says where unknown goes" if verdict == UNKNOWN else f"`{step.reading}` may say so"
                yield (*here, "branches"), f"no branch for `{verdict}`; {why}"
        for verdict in step.branches:
            if verdict not in reading.verdicts:
                near = _near(verdict, reading.verdicts)
                yield (*here, "branches", verdict), f"`{step.reading}` never says `{verdict}`{near}"
    known = [*playbook.steps, *playbook.conclusions]
    for verdict, target in step.branches.items():
        if target not in known:
            yield (*here, "branches", verdict), f"leads to `{target}`, which is nowhere{_near(target, known)}"


def _lint_reach(playbook: Playbook) -> Iterator[tuple[Path, str]]:
    reached: set[str] = set()
    for cycle in _walk(playbook, playbook.start, (), reached):
        yield ("steps", cycle[0]), f"goes in a circle: {' → '.join(cycle)}"
    for name in playbook.steps:
        if name not in reached:
            yield ("steps", name), "no branch leads here; remove the step, or lead a branch to it"
    for name in playbook.conclusions:
        if name not in reached:
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


def _near(word: str, known: object) -> str:
    names = list(known) if isinstance(known, dict | list | tuple) else []
    near = difflib.get_close_matches(word, names, n=1)
    return f"; did you mean `{near[0]}`?" if near else ""
