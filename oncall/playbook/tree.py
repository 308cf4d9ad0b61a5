"""A playbook as a tree of lines: each question once, each branch under it."""

from collections.abc import Iterator

from oncall.playbook.model import Playbook


def tree_lines(playbook: Playbook) -> Iterator[str]:
    """The playbook's title, then its steps from the start; a step met again is only named."""
    alert = f" ({playbook.alert})" if playbook.alert else ""
    yield f"{playbook.playbook}: {playbook.title}{alert}"
    yield from _step(playbook, playbook.start, "", set())


def _step(playbook: Playbook, name: str, indent: str, seen: set[str]) -> Iterator[str]:
    step = playbook.steps[name]
    seen.add(name)
    yield f"{indent}{name}: {step.ask}  [{step.reading}]"
    for verdict, target in step.branches.items():
        leaf = playbook.conclusions.get(target)
        if leaf is not None:
            yield f"{indent}  {verdict} → {target}: {leaf.title} ({leaf.ending})"
        elif target in seen:
            yield f"{indent}  {verdict} → {target} (above)"
        else:
            yield f"{indent}  {verdict} →"
            yield from _step(playbook, target, indent + "    ", seen)
