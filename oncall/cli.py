"""Parses the command line, imports the one command it names, and turns its outcome into an exit code."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from oncall import __version__
from oncall.errors import OncallError
from oncall.neutral import neutral

INTERNAL_ERROR = 1
INTERRUPTED = 130
READER_GONE = 141

COMMANDS: dict[str, str] = {
    "init": "write a run file with every key explained",
    "ranks": "show which rank runs where",
    "schema": "print the JSON Schema of an answer or of a file",
    "replay": "walk a recorded incident again, with no network",
    "raw": "print one rank's stack or Flight Recorder entries from a recorded incident",
    "demo": "show what a triage answers, on a recorded incident",
    "exporter": "show a run's step records, spans and logs on this node to Prometheus",
    "dump": "ask a running job for Flight Recorder dumps, after you confirm it",
    "signals": "show each signal: its query, whether it has data now, of how many ranks, how old",
    "fr": "name the origin of a hang from PyTorch Flight Recorder dumps",
    "xid": "explain Xid codes, or the kernel log that holds them",
    "playbook": "list, show, check and try playbooks; write the on-call manual",
    "read": "read any file somebody sent you: kernel log, torchrun log, py-spy dump, Flight Recorder dump",
}
"""Command name → one line of help. `oncall.commands.<name>` holds `configure(parser)` and `run(args)`."""

_RUN_COMMAND = "triage"


def _usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return (
        "usage: oncall RUN [--triage] [options]\n"
        "       oncall COMMAND [options]\n\n"
        "Finds out why a training run stopped or slowed. RUN is the name of a run file (run42 for run42.toml) or its\n"
        "path; `oncall RUN --help` lists the options.\n\n"
        f"commands:\n{rows}\n\n"
        "  --help, --version\n"
    )


def _dispatch(argv: Sequence[str]) -> int:
    if not argv or argv[0] in {"-h", "--help"}:
        sys.stdout.write(_usage())
        return 0 if argv else 2
    if argv[0] == "--version":
        sys.stdout.write(f"oncall {__version__}\n")
        return 0
    name, rest = (argv[0], argv[1:]) if argv[0] in COMMANDS else (_RUN_COMMAND, argv)
    command = importlib.import_module(f"oncall.commands.{name.replace('-', '_')}")
    parser = argparse.ArgumentParser(
        prog="oncall" if name == _RUN_COMMAND else f"oncall {name}",
        description=command.__doc__,
        allow_abbrev=False,
    )
    command.configure(parser)
    code: int = command.run(parser.parse_args(rest))
    return code


def _complain(text: str) -> None:
    """On standard error, line by line: what is complained of may be quoted from a file that somebody sent."""
    sys.stderr.writelines(f"{neutral(line)}\n" for line in text.split("\n"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code. Errors go to stderr as cause and way out, never as a traceback."""
    try:
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Not by the signal, which would also end us when a node or a server closes its connection. What is still to
        # be flushed at exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except OncallError as error:
        _complain(f"oncall: {error.cause}")
        if error.hint:
            _complain(f"  {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("oncall: interrupted\n")
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("ONCALL_DEBUG"):
            raise
        _complain(f"oncall: internal error: {type(error).__name__}: {error}")
        sys.stderr.write("  set ONCALL_DEBUG=1 to see where; what was gathered so far is kept\n")
        return INTERNAL_ERROR
