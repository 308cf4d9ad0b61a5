"""Reads playbooks and says what is wrong with them, each mistake with its line."""

from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from oncall.errors import ConfigError, UsageError
from oncall.playbook.document import Document, Place, read_document
from oncall.playbook.lint import lint
from oncall.playbook.model import Playbook
from oncall.run.strict import check
from oncall.run.text_file import read_text

MAX_BYTES = 1024 * 1024
_EXTENDS = "extends"
_BY_NAME = ("steps", "conclusions")


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


def own_folder() -> Path:
    """Where a site keeps its own playbooks; one there goes before a shipped one of the same name."""
    return platformdirs.user_config_path("oncall") / "playbooks"


def known() -> Mapping[str, str]:
    """Name → where it is from, of every playbook that `load` finds by name."""
    own = {path.stem: str(path) for path in sorted(own_folder().glob("*.yaml"))}
    return dict(sorted({**dict.fromkeys(shipped(), "shipped"), **own}.items()))


def load(name: str) -> Playbook:
    """The playbook of this name or path; one in the user's own folder goes before a shipped one.

    Raises:
        UsageError: there is none.
        ConfigError: it has mistakes; all are listed with file and line.
    """
    given = Path(name)
    for path in (given, own_folder() / f"{name}.yaml"):
        if path.is_file():
            return load_file(path)
    texts = shipped()
    if name not in texts:
        raise UsageError(f"no playbook {name}", f"there are: {', '.join(known())}; or give the path of a file")
    return parse(texts[name], f"{name}.yaml")


def load_file(path: Path) -> Playbook:
    """As `load`, of one file.

    Raises:
        UsageError: the file cannot be read.
        ConfigError: as `load`.
    """
    return parse(read_text(path, MAX_BYTES, "a playbook is a few hundred lines of YAML in UTF-8"), str(path))


def parse(text: str, file: str) -> Playbook:
    """As `load`, from the text of a playbook; `file` is the name used in messages.

    One that says `extends: NAME` holds only what differs from the shipped playbook of that name: keys at the top, and
    whole steps and conclusions by name. What no branch leads to any more is left out of the shipped part.
    """
    own = read_document(text, file)
    document = _extended(own, file) if _EXTENDS in own.data else own
    lines = {(): 1, **{path: place.line for path, place in own.places.items()}}
    problems = document.problems + [_in_yaml(each) for each in check(document.data, Playbook, lines.get, file)]
    if problems:
        raise ConfigError(problems)
    playbook = msgspec.convert(document.data, Playbook)
    if document is not own:
        playbook = _without_unreached(playbook, own.data)
    problems = [f"{_place(path, document, file)}: {message}" for path, message in (*_named(own, file), *lint(playbook))]
    if problems:
        raise ConfigError(problems)
    return playbook


def _named(own: Document, file: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Runs, alerts and people name a playbook by its file."""
    name, stem = own.data.get("playbook"), Path(file).stem
    if name is not None and name != stem:
        yield ("playbook",), f"is called `{name}`, and is found by the name of its file, `{stem}`; give both one name"


def _in_yaml(problem: str) -> str:
    """A mistake in the words of YAML, where TOML has others."""
    for word, meant in (("`table`", "a mapping"), ("`array`", "a list"), ("`str`", "text")):
        problem = problem.replace(word, meant)
    return problem


def _place(path: tuple[str, ...], document: Document, file: str) -> Place:
    return document.places.get(path) or document.places.get(path[:2]) or Place(file, 1)


def _extended(own: Document, file: str) -> Document:
    name = str(own.data[_EXTENDS])
    texts = shipped()
    if name not in texts:
        there = ", ".join(sorted(texts))
        raise ConfigError([f"{own.places[(_EXTENDS,)]}: extends `{name}`, which is not shipped; there are: {there}"])
    base = read_document(texts[name], f"{name}.yaml (shipped)")
    data = {**base.data, **{key: value for key, value in own.data.items() if key != _EXTENDS}}
    for key in _BY_NAME:
        added = own.data.get(key, {})
        if not isinstance(added, dict):
            raise ConfigError([f"{own.places[(key,)]}: {key}: expected a mapping of names"])
        data[key] = {**base.data[key], **added}
    replaced = {path[:2] for path in own.places if path[0] in _BY_NAME and len(path) > 1}
    inherited = {path: place for path, place in base.places.items() if path[:2] not in replaced}
    return Document(data, {**inherited, **own.places}, own.problems)


def _without_unreached(playbook: Playbook, own: Mapping[str, Any]) -> Playbook:
    """Without those steps and conclusions of the shipped part that the site's own no longer lead to."""
    reached: set[str] = set()
    ahead = [playbook.start, *own.get("steps", {})]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += playbook.steps[name].branches.values() if name in playbook.steps else ()
    reached |= own.get("conclusions", {}).keys()
    return msgspec.structs.replace(
        playbook,
        steps={name: step for name, step in playbook.steps.items() if name in reached},
        conclusions={name: leaf for name, leaf in playbook.conclusions.items() if name in reached},
    )
