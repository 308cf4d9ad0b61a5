"""The commands by which a person asks what a step asks or does what an action says, filled in for a run."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from oncall.run.model import Run

FIELDS = ("run", "match", "logs", "dumps", "checkpoints")
"""What a command may hold in braces: the run's name, what the command lines of its processes match, and its paths."""


class Where(StrEnum):
    """Where a command belongs: its mark in a playbook.

    Every node's shell, that of the hosts that the answer names, the console's own, the console's own once all dumps are
    there, or Prometheus.
    """

    NODE = "on the node"
    NAMED = "on the named hosts"
    HERE = "here"
    DUMPS = "dumps"
    PROMETHEUS = "promql"


_PART = re.compile(rf"(?:^|; )(?P<mark>{Where.PROMETHEUS}|{Where.NODE}|{Where.NAMED}|{Where.HERE}): ")


@dataclass(frozen=True, slots=True)
class Command:
    """One thing to paste."""

    where: Where
    text: str


def ready(run: Run, command: str) -> str:
    """A command with the run's name and paths filled in; a path that it does not name stays as `PATHS.NAME`."""
    paths = run.paths
    named = {"match": run.processes.match or "python"}
    named |= {name: path for name in ("logs", "dumps", "checkpoints") if (path := getattr(paths, name)) is not None}
    for field in FIELDS:
        filled = run.name if field == "run" else shlex.quote(named[field]) if field in named else placeholder(field)
        command = command.replace("{" + field + "}", filled)
    return command


def placeholder(path: str) -> str:
    """What stands in a command for a path that the run file does not name: a word that no shell takes for its own."""
    return f"PATHS.{path.upper()}"


def commands(run: Run, by_hand: str) -> tuple[Command, ...]:
    """The commands of a step, such as `promql: QUERY; on the node: COMMAND`; one without a mark is for a shell."""
    return tuple(split(ready(run, by_hand)))


def split(text: str) -> Iterator[Command]:
    """The commands of a text by their marks, with its fields as they stand."""
    marks = list(_PART.finditer(text))
    if not marks or marks[0].start() > 0:
        first = text[: marks[0].start()] if marks else text
        yield Command(_where(first), first)
    for mark, following in zip_longest(marks, marks[1:]):
        body = text[mark.end() : following.start() if following else len(text)]
        where = Where(mark["mark"])
        if where is Where.PROMETHEUS:
            yield from (Command(where, query.strip()) for query in body.split("; "))
        else:
            yield Command(where, body)


def _where(text: str) -> Where:
    if text.startswith("oncall fr "):
        return Where.DUMPS
    return Where.HERE if text.startswith("oncall ") else Where.NODE
