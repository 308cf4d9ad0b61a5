"""Parses the command line, imports the one command it names, and turns its outcome into an exit code."""

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Sequence

from oncall import __version__
from oncall.errors import OncallError, UsageError
from oncall.neutral import neutral

INTERNAL_ERROR = 1
INTERRUPTED = 130
READER_GONE = 141

COMMANDS: dict[str, str] = {
    "init": "write a run file with every key explained",
    "ranks": "show which rank runs where",
    "replay": "walk a recorded incident again, with no network",
    "raw": "print one rank's stack or Flight Recorder entries from a recorded incident",
    "read": "read any file somebody sent you: kernel log, torchrun log, py-spy dump, Flight Recorder dump",
    "fr": "name the origin of a hang from PyTorch Flight Recorder dumps",
    "dump": "ask a running job for Flight Recorder dumps, after you confirm it",
    "xid": "explain Xid codes, or the kernel log that holds them",
    "demo": "show what a triage answers, on a recorded incident",
    "playbook": "list, show, check and try playbooks; write the on-call manual",
    "signals": "show each signal: its query, whether it has data now, of how many ranks, how old",
    "exporter": "show a run's step records, spans and logs on this node to Prometheus",
    "schema": "print the JSON Schema of an answer or of a file",
}
"""Command name → one line of help. `oncall.commands.<name>` holds `configure(parser)` and `run(args)`."""

_RUN_COMMAND = "triage"
_LIKE = 0.75
"""How alike a word must be to a command to be taken for a slip of it (`difflib`'s ratio)."""


def _usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return (
        "usage: oncall RUN [--triage] [options]\n"
        "       oncall COMMAND [options]\n\n"
        "Finds out why a training run stopped or slowed. RUN is the name of a run file (run42 for run42.toml) or its\n"
        "path; `oncall RUN --help` lists the options. `oncall demo` shows it without a cluster.\n\n"
        f"commands:\n{rows}\n\n"
        "exit codes: 0 nothing wrong and everything seen, 10 cause found, 11 wrong but undecided, 12 not enough seen,\n"
        "2 wrong input, 1 oncall failed, 130 interrupted; `oncall COMMAND --help` says what differs there.\n\n"
        "  --help, --version\n"
    )


def _dispatch(argv: Sequence[str]) -> int:
    if not argv or argv[0] in {"-h", "--help", "help"}:
        (sys.stdout if argv else sys.stderr).write(_usage())
        return 0 if argv else 2
    if argv[0] == "--version":
        sys.stdout.write(f"oncall {__version__}\n")
        return 0
    name, rest = (argv[0], argv[1:]) if argv[0] in COMMANDS else (_RUN_COMMAND, argv)
    if name == _RUN_COMMAND and not argv[0].startswith("-"):
        _refuse_slip(argv[0])
    command = importlib.import_module(f"oncall.commands.{name}")
    parser = argparse.ArgumentParser(
        prog="oncall" if name == _RUN_COMMAND else f"oncall {name}",
        description=command.__doc__,
        allow_abbrev=False,
    )
    command.configure(parser)
    args = parser.parse_args(rest)
    if getattr(args, "json", False):
        _reconfigure(sys.stdout, encoding="utf-8")
    code: int = command.run(args)
    return code


def _refuse_slip(word: str) -> None:
    """Raise UsageError where a word that names no run is nearly a command."""
    near = difflib.get_close_matches(word, [*COMMANDS, _RUN_COMMAND], n=1, cutoff=_LIKE)
    if not near:
        return
    try:
        importlib.import_module("oncall.run.file").find(word)
    except UsageError as error:
        meant = "oncall RUN --triage" if near[0] == _RUN_COMMAND else f"oncall {near[0]}"
        raise UsageError(f"{word} is neither a command nor a run", f"did you mean `{meant}`?") from error


def _settle_streams() -> None:
    """Make the standard streams safe to use.

    One that was closed before the start becomes /dev/null, lest a file that is opened later is given its number. A
    sign that the locale's encoding lacks is written as an escape. Raises UsageError where the answer has nowhere to go.
    """
    nowhere = getattr(sys, "stdout", None) is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
    for stream in (sys.stdout, sys.stderr):
        _reconfigure(stream, errors="backslashreplace")
    if nowhere:
        raise UsageError("standard output is closed, and the answer goes there", "send it to a file or a pipe")


def _reconfigure(stream: object, **settings: str) -> None:
    """Change a stream's encoding or its errors; one put there by a caller, which may have neither, stays as it is."""
    change = getattr(stream, "reconfigure", None)
    if change is not None:
        change(**settings)


def _complain(text: str) -> None:
    """On standard error, line by line: what is complained of may be quoted from a file that somebody sent."""
    try:
        sys.stderr.writelines(f"{neutral(line)}\n" for line in text.split("\n"))
        sys.stderr.flush()
    except OSError:  # nobody can be told; the exit code still is
        _drop(2)


def _drop(descriptor: int) -> None:
    """What is still to be flushed at exit goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _failed(error: BaseException) -> int:
    """Say what oncall did not foresee; returns the exit code."""
    if os.environ.get("ONCALL_DEBUG"):
        raise error
    match error:
        case OSError():
            of = f"{error.filename}: " if error.filename else ""
            _complain(f"oncall: {of}{error.strerror or error}")
        case MemoryError():
            _complain("oncall: not enough memory")
        case _:
            _complain(f"oncall: internal error: {type(error).__name__}: {error}")
    _complain("  set ONCALL_DEBUG=1 to see where; what was gathered so far is kept")
    return INTERNAL_ERROR


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code. Errors go to stderr as cause and way out, never as a traceback."""
    try:
        _settle_streams()
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Not by the signal, which would also end us when a node or a server closes its connection.
        _drop(sys.stdout.fileno())
        return READER_GONE
    except OncallError as error:
        _complain(f"oncall: {error.cause}")
        if error.hint:
            _complain(f"  {error.hint}")
        return error.exit_code
    except KeyboardInterrupt:
        _complain("oncall: interrupted")
        return INTERRUPTED
    except Exception as error:
        return _failed(error)
