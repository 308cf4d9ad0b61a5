"""A YAML file as plain values that know their lines, read as input that may be hostile."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from oncall.errors import ConfigError

_MAX_DEPTH = 12
"""A playbook's deepest value, what an action says, lies six levels down."""
_MAX_NODES = 20_000
"""Keys and values, aliases written out: the longest of the shipped playbooks has fewer than 2,000."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a key stands, lines from 1; as text `file:line`."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML mapping as plain values, where each key stands, and what is wrong already."""

    data: dict[str, Any]
    places: Mapping[tuple[str, ...], Place]
    problems: list[str] = field(default_factory=list)


class _Composer(yaml.SafeLoader):
    """Refuses what grows out of hand before it is written out: nesting, aliases of aliases, an alias of itself."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node; PyYAML composes each by this, from the outside inwards."""
        alias, mark = self.check_event(yaml.AliasEvent), parent.start_mark if parent is not None else self.get_mark()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"nested deeper than {_MAX_DEPTH} levels; a playbook has six", problem_mark=mark
            )
        node = super().compose_node(parent, index)
        self._depth -= 1
        if alias and id(node) not in self._sizes:
            raise yaml.MarkedYAMLError(problem="an alias stands within what it is an alias of", problem_mark=mark)
        if node is not None and id(node) not in self._sizes:
            self._sizes[id(node)] = size = 1 + sum(self._sizes[id(child)] for child in _children(node))
            if size > _MAX_NODES or len(self._sizes) > _MAX_NODES:
                problem = f"holds more than {_MAX_NODES:,} keys and values, aliases written out"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return node


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        yield from (each for pair in node.value for each in pair)
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def read_document(text: str, file: str) -> Document:
    """The mapping that a YAML text holds; `file` is the name used in messages.

    Raises:
        ConfigError: it is none, or not one that could be a playbook, with file and line.
    """
    root = _composed(text, file)
    places: dict[tuple[str, ...], Place] = {}
    problems: list[str] = []
    twice: set[tuple[str, ...]] = set()
    for path, line in _keys(root, ()):
        if path in places:
            if path[:-1] not in twice:
                first = places[path].line
                problems.append(f"{file}:{line}: {'.'.join(path)}: stands here a second time, first at {first}")
            twice.add(path)
        places.setdefault(path, Place(file, line))
    return Document(_plain(root), places, problems)


def _composed(text: str, file: str) -> yaml.MappingNode:
    try:
        root = yaml.compose(text, Loader=_Composer)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError([f"{file}:{line}: {error.problem}{_mend(str(error.problem))}"]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError([f"{file}:{line}: {str(error).splitlines()[0]}"]) from error
    if not isinstance(root, yaml.MappingNode):
        keys = "playbook, title, start, steps and conclusions"
        raise ConfigError([f"{file}:1: a playbook is a mapping with the keys {keys}"])
    return root


def _mend(problem: str) -> str:
    """What the usual mistakes in YAML come from, by PyYAML's words for them (6.0)."""
    if "'\\t'" in problem:
        return "; indent with spaces"
    return "; write text that holds a colon in quotes" if "mapping values" in problem else ""


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
