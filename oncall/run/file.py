"""Finds and reads run files."""

import os
import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import platformdirs

from oncall.errors import ConfigError, UsageError
from oncall.run.model import Run
from oncall.run.nodes import expand_hosts
from oncall.run.ranks import RankMap, parse_rank_map
from oncall.run.strict import check
from oncall.run.templates import FIELDS, unknown_fields

_HEADER = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_KEY_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def search_folders() -> list[Path]:
    """Where a run's name is looked up, in order: here, ./runs, each of $ONCALL_RUNS, the user's own folder."""
    extra = [Path(folder) for folder in os.environ.get("ONCALL_RUNS", "").split(os.pathsep) if folder]
    return [Path(), Path("runs"), *extra, platformdirs.user_config_path("oncall") / "runs"]


def find(name: str) -> Path:
    """The run file that `name` means: a path, or a name looked up in `search_folders`."""
    given = Path(name)
    if given.is_file():
        return given
    if given.suffix == ".toml" or os.sep in name:
        raise UsageError(f"{name}: no such run file", "`oncall init NAME` writes one to fill in")
    folders = search_folders()
    for folder in folders:
        candidate = folder / f"{name}.toml"
        if candidate.is_file():
            return candidate
    looked = ", ".join(str(folder / f"{name}.toml") for folder in folders)
    raise UsageError(f"no run file for {name}; looked for {looked}", f"`oncall init {name}` writes one to fill in")


def load(path: Path) -> Run:
    """The run that a file describes.

    Raises:
        UsageError: the file cannot be read.
        ConfigError: it is no TOML, or has mistakes; all of them are listed, with key and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    return parse(text, str(path), default_name=path.stem)


def parse(text: str, file: str, *, default_name: str) -> Run:
    """As `load`, from the text of a run file; `file` is the name used in messages."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{file}: {error}"]) from error
    lines = key_lines(text)
    problems = check(data, Run, lines.get, file)
    nodes = data.get("nodes")
    if isinstance(nodes, str):
        problems += _node_problems(nodes, f"{file}:{lines.get(('nodes',))}")
    actions = data.get("actions")
    for name, template in actions.items() if isinstance(actions, dict) else ():
        problems += _template_problems(name, template, f"{file}:{lines.get(('actions', name))}")
    for table in ("prometheus", "alertmanager"):
        problems += _address_problems(data.get(table), f"{file}:{lines.get((table, 'url'))}: {table}.url")
    if problems:
        raise ConfigError(problems, "`oncall init RUN` writes a run file with every key explained")
    run = msgspec.convert(data, Run)
    return run if run.name else msgspec.structs.replace(run, name=default_name)


def _node_problems(nodes: str, where: str) -> list[str]:
    try:
        empty = not expand_hosts(nodes)
    except ValueError as error:
        return [f"{where}: nodes: {error}"]
    return [f"{where}: nodes: names no node"] if empty else []


def _template_problems(name: str, template: object, where: str) -> list[str]:
    if not isinstance(template, str):
        return []
    try:
        unknown = unknown_fields(template)
    except ValueError as error:
        return [f"{where}: actions.{name}: {error}; a brace that is meant is written twice"]
    known = ", ".join(f"{{{field}}}" for field in FIELDS)
    return [f"{where}: actions.{name}: nothing fills {{{field}}}; known are {known}" for field in unknown]


def _address_problems(table: object, where: str) -> list[str]:
    """A bundle keeps the run file, so an address must not hold a secret."""
    url = table.get("url") if isinstance(table, dict) else None
    if not isinstance(url, str):
        return []
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [f"{where}: {error}"]
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return [f"{where}: is no http or https address"]
    return [f"{where}: holds a password; name a variable or file instead"] if "@" in parts.netloc else []


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """The line on which each key and table of a TOML text first stands, 1-based.

    Line by line, without TOML's whole grammar: what looks like a key inside a multi-line string is an entry that
    nobody asks for, since only keys that the parser found are looked up.
    """
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = _key_path(header[1])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault(table + _key_path(key[1]), number)
    return found


def _key_path(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _KEY_PART.findall(dotted))


def load_ranks(run_file: Path, run: Run) -> RankMap | None:
    """The rank map that a run file names, relative to its folder; None where it names none.

    Raises:
        ConfigError: the file cannot be read, or has mistakes; all of them are listed.
    """
    if run.ranks.file is None:
        return None
    path = run_file.parent / run.ranks.file
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: {error}"], "`oncall ranks RUN --save` writes a rank map") from error
    return parse_rank_map(text, str(path), world_size=run.ranks.world_size)
