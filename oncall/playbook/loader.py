"""Reads playbooks and says what is wrong with them, each mistake with its line."""

from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import platformdirs
import yaml

from oncall.errors import ConfigError, UsageError
from oncall.playbook.lint import lint
from oncall.playbook.model import Playbook
from oncall.run.strict import check

Lines = Mapping[tuple[str, ...], int]


def shipped() -> Mapping[str, str]:
    """Name → YAML text of the playbooks that come with the product."""
    folder = resources.files("oncall").joinpath("playbooks")
    if not folder.is_dir():
        folder = resources.files("oncall").joinpath("../playbooks")
    return {
        item.name.removesuffix(".yaml"): item.read_text(encoding="utf-8")
        for item in folder.iterdir()
        if item.name.endswith(".yaml")
    }


def load(name: str) -> Playbook:
    """The playbook of this name or path; one in the user's own folder goes before a shipped one.

    Raises:
        UsageError: there is none.
        ConfigError: it has mistakes; all are listed with file and line.
    """
    given = Path(name)
    own = platformdirs.user_config_path("oncall") / "playbooks" / f"{name}.yaml"
    for path in (given, own):
        if path.is_file():
            return parse(path.read_text(encoding="utf-8"), str(path))
    texts = shipped()
    if name not in texts:
        raise UsageError(f"no playbook {name}", f"there are: {', '.join(sorted(texts))}; or give the path of a file")
    return parse(texts[name], f"{name}.yaml")


def parse(text: str, file: str) -> Playbook:
    """As `load`, from the text of a playbook; `file` is the name used in messages."""
    data, lines, problems = _read(text, file)
    problems += check(data, Playbook, lines.get, file)
    if problems:
        raise ConfigError(problems)
    playbook = msgspec.convert(data, Playbook)
    problems = [f"{file}:{lines.get(path, 1)}: {message}" for path, message in lint(playbook)]
    if problems:
        raise ConfigError(problems)
    return playbook


def _read(text: str, file: str) -> tuple[dict[str, Any], Lines, list[str]]:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError([f"{file}:{line}: {error.problem}"]) from error
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError([f"{file}:1: a playbook is a mapping with the keys playbook, start, steps, conclusions"])
    lines: dict[tuple[str, ...], int] = {}
    problems: list[str] = []
    for path, line in _keys(root, ()):
        if path in lines:
            problems.append(f"{file}:{line}: {'.'.join(path)}: stands here a second time, first at {lines[path]}")
        lines.setdefault(path, line)
    return _plain(root), lines, problems


def _keys(node: yaml.Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every key and list item with its line."""
    items: list[tuple[str, yaml.Node, yaml.Node]] = []
    if isinstance(node, yaml.MappingNode):
        items = [(str(key.value), key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        items = [(str(index), value, value) for index, value in enumerate(node.value)]
    for name, mark, value in items:
        yield (*path, name), mark.start_mark.line + 1
        yield from _keys(value, (*path, name))


def _plain(node: yaml.Node) -> Any:
    """The node's value. Keys are kept as written: a branch may be called `no`."""
    if isinstance(node, yaml.MappingNode):
        return {str(key.value): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return str(node.value)
