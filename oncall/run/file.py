"""Finds and reads run files."""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import msgspec
import platformdirs

from oncall.errors import ConfigError, UsageError
from oncall.run.mistakes import further_mistakes
from oncall.run.model import Run, RunName
from oncall.run.nodes import expand_hosts
from oncall.run.ranks import RankMap, parse_rank_map
from oncall.run.strict import check
from oncall.run.text_file import read_text

MAX_BYTES = 1024 * 1024
MAX_MAP_BYTES = 256 * 1024 * 1024
"""A rank map of a million ranks, every field known."""

_HINT = "`oncall init RUN` writes a run file with every key explained"
_MAP_HINT = "`oncall ranks RUN --save` writes a rank map; without `[ranks] file` it is found from the processes"

_HEADER = re.compile(r"\s*\[+\s*([^\]]+?)\s*\]+")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PLACE = re.compile(r" ?\(at line (\d+), column \d+\)")
_KEY_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def search_folders() -> list[Path]:
    """Where a run's name is looked up, in order: here, ./runs, each of $ONCALL_RUNS, the user's own folder."""
    extra = [Path(folder) for folder in os.environ.get("ONCALL_RUNS", "").split(os.pathsep) if folder]
    return [Path(), Path("runs"), *extra, platformdirs.user_config_path("oncall") / "runs"]


def find(name: str) -> Path:
    """The run file that `name` means: a path, or a name looked up in `search_folders`."""
    given = Path(name)
    if given.suffix == ".toml" or os.sep in name:
        if os.path.isfile(given):
            return given
        what = "is no file" if os.path.exists(given) else "no such run file"
        raise UsageError(f"{name}: {what}", "`oncall init NAME` writes one to fill in")
    folders = search_folders()
    for candidate in (*(folder / f"{name}.toml" for folder in folders), given):
        if os.path.isfile(candidate):
            return candidate
    looked = ", ".join(str(folder / f"{name}.toml") for folder in folders)
    near = difflib.get_close_matches(name, _names(folders), n=1)
    hint = f"did you mean `oncall {near[0]}`?" if near else f"`oncall init {name}` writes one to fill in"
    raise UsageError(f"no run file for {name}; looked for {looked}", hint)


def _names(folders: Iterable[Path]) -> list[str]:
    """The names of the run files that there are; a folder that cannot be read has none."""
    return [path.stem for folder in folders for path in folder.glob("*.toml")]


def load(path: Path) -> Run:
    """The run that a file describes.

    Raises:
        UsageError: the file cannot be read.
        ConfigError: it is no TOML, or has mistakes; all of them are listed, with key and line.
    """
    return parse(read_text(path, MAX_BYTES, _HINT), str(path), default_name=path.stem)


def parse(text: str, file: str, *, default_name: str) -> Run:
    """As `load`, from the text of a run file; `file` is the name used in messages."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError([_no_toml(file, str(error))], _HINT) from error
    lines = key_lines(text)

    def where(*path: str) -> str:
        line = lines.get(path)
        return f"{file}:{line}: {'.'.join(path)}" if line is not None else f"{file}: {'.'.join(path)}"

    problems = [*check(data, Run, lines.get, file), *further_mistakes(data, where)]
    if not problems and "name" not in data:
        data["name"] = default_name
        if not _names_a_run(default_name):
            problems = [f"{file}: a run cannot be called {default_name!r} after its file; give it a `name`"]
    if problems:
        raise ConfigError(problems, _HINT)
    return msgspec.convert(data, Run)


def _names_a_run(text: str) -> bool:
    """Whether the name of a file, which may hold anything, can be that of a run."""
    try:
        msgspec.convert(text, RunName)
    except msgspec.ValidationError:
        return False
    return text.isprintable()


def _no_toml(file: str, message: str) -> str:
    """What the parser says, with its `(at line 2, column 5)` in front."""
    place = _PLACE.search(message)
    return f"{file}:{place[1]}: {message.replace(place[0], '')}" if place else f"{file}: {message}"


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
        UsageError: the file cannot be read.
        ConfigError: it is not there, or has mistakes; all of them are listed.
    """
    if run.ranks.file is None:
        return None
    path = run_file.parent / Path(run.ranks.file).expanduser()
    if not os.path.isfile(path):
        raise ConfigError([f"{path}: no such file to be read; `[ranks] file` of {run_file} names it"], _MAP_HINT)
    text = read_text(path, MAX_MAP_BYTES, _MAP_HINT)
    ranks = parse_rank_map(text, str(path), world_size=run.ranks.world_size)
    hosts = {place.host for place in ranks.places.values()}
    if hosts.isdisjoint(expand_hosts(run.nodes)):
        told = f"{path}: its hosts, as {min(hosts)}, are none of the `nodes` of {run_file}"
        raise ConfigError([told], "both must spell a host alike: short or with its domain")
    return ranks
