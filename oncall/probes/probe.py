"""What a probe is: a shell script with its variables, a deadline, and how a person would ask the same."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from oncall.run.model import Run
from oncall.run.ranks import RankMap

_MEANINGLESS = re.compile(r"^\s*#.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Probe:
    """One question put to every node.

    `variables` gives the script's settings for one host; `functions` is a script of functions that it calls.
    `deadline_s` overrides the run's own, in seconds. `by_hand` is a command that asks one node the same, with `{…}`
    fields of the run's paths.
    """

    name: str
    asks: str
    script: str
    variables: Callable[[Run, RankMap, str], Mapping[str, str]]
    by_hand: str
    deadline_s: float | None = None
    functions: str | None = None

    def build(
        self, run: Run, ranks: RankMap, host: str, boundary: str, extra: Mapping[str, str] | None = None
    ) -> bytes:
        """The whole script for one host, every variable quoted.

        It is one shell function, so that a script that was cut on its way runs nothing, and it reads no input.
        """
        variables = {
            "BOUNDARY": boundary,
            "MAY_SUDO": "1" if run.reach.sudo else "0",
            "MATCH": run.processes.match or "",
            **self.variables(run, ranks, host),
            **(extra or {}),
        }
        settings = "\n".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        called = _source(self.functions) if self.functions else ""
        body = _source("prelude.sh") + called + _source(self.script)
        return f"{settings}\noncall_probe() {{\n{body}\n}}\noncall_probe </dev/null\n".encode()


@cache  # the same for thousands of nodes
def _source(name: str) -> str:
    text = resources.files("oncall.probes").joinpath(name).read_text(encoding="utf-8")
    return _MEANINGLESS.sub("", text)
