"""Commands as they are pasted on the console's machine: put to the run's nodes, or to Prometheus."""

import re
import shlex
from pathlib import Path, PurePosixPath

from oncall.playbook.by_hand import Command, Where, placeholder
from oncall.run.model import Run

_EXPANDED = re.compile(r'[\\$`"]')
"""What a shell does not leave alone within double quotes (POSIX.1-2024, 2.2.3)."""


def pasted(run: Run, command: Command, hosts: str | None = None) -> str | None:
    """A command for the shell of the console's machine; None for a query where the run file names no Prometheus.

    `hosts` are those that the answer names, folded; None means every node.
    """
    match command.where:
        case Where.PROMETHEUS:
            return _curl(run, command.text)
        case Where.DUMPS:
            return command.text if run.reach.via == "local" else _fetched(run)
        case Where.HERE:
            return command.text
        case Where.NODE:
            return on_nodes(run, command.text)
        case Where.NAMED:
            return on_nodes(run, command.text, hosts)


def on_nodes(run: Run, command: str, hosts: str | None = None) -> str:
    """A command put to nodes at once; what it pipes into `oncall` runs here, since the nodes have none."""
    if run.reach.via == "local":
        return command
    remote, pipe, rest = command.partition(" | oncall ")
    return f"{_clush(run, hosts)} -- {_quoted(remote)}{pipe}{rest}"


def _curl(run: Run, query: str) -> str | None:
    url = run.prometheus.url
    if url is None:
        return None
    address = shlex.quote(url.rstrip("/") + "/api/v1/query")
    return f"curl -sG {address} --data-urlencode {shlex.quote(f'query={query}')}"


def _fetched(run: Run) -> str:
    """Every node's folder of dumps, copied here side by side, and read together."""
    folder = str(PurePosixPath(run.paths.dumps).parent) if run.paths.dumps else placeholder("dumps")
    return f"mkdir -p dumps && {_clush(run)} --rcopy {shlex.quote(folder)} --dest dumps && oncall fr dumps/*"


def _clush(run: Run, hosts: str | None = None) -> str:
    reach = run.reach
    options = [f"-l {shlex.quote(reach.user)}"] if reach.user else []
    ssh = [f"-F {Path(reach.ssh_config).expanduser()}"] if reach.ssh_config else []
    ssh += [f"-p {reach.port}"] if reach.port else []
    ssh += [f"-i {reach.identity}"] if reach.identity else []
    ssh += [f"-J {reach.jump}"] if reach.jump else []
    options += [f"-o {shlex.quote(' '.join(ssh))}"] if ssh else []
    return " ".join(["clush", "-bw", shlex.quote(hosts or run.nodes), *options])


def _quoted(command: str) -> str:
    """A command as one word, in double quotes where it holds single ones; those do not keep `!` from being expanded."""
    if "'" not in command or "!" in command:
        return shlex.quote(command)
    return '"' + _EXPANDED.sub(r"\\\g<0>", command) + '"'
