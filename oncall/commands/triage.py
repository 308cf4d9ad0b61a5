"""Find out why a training run stopped or slowed: ask all nodes, walk the decision tree, say what broke, what to do.

Without a terminal, or with --triage, --json or --compare, the answer goes to stdout and the exit code tells its kind: 0
nothing wrong found and everything seen, 10 cause found, 11 something is wrong and undecided, 12 not enough was seen to
say, 2 the command line, the run file or the playbook is wrong, 1 oncall failed, 130 interrupted (the bundle is kept).
"""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from oncall.bundle.store import AUTOMATIC, Bundle, Manifest
from oncall.errors import OncallError, UsageError
from oncall.run.file import find, load, load_ranks
from oncall.run.ranks import dump_rank_map
from oncall.signals.run_queries import checked_queries

_LONGEST_S = 86_400

if TYPE_CHECKING:
    from oncall.report.model import Report


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of a triage."""
    parser.add_argument(
        "run",
        metavar="RUN",
        help="path of a run file, or its name: RUN.toml here, in ./runs, $ONCALL_RUNS or ~/.config/oncall/runs",
    )
    parser.add_argument("--triage", action="store_true", help="no console: the answer goes to stdout")
    parser.add_argument("--json", action="store_true", help="no console: the answer as JSON (`oncall schema triage`)")
    parser.add_argument(
        "--playbook",
        default=AUTOMATIC,
        metavar="NAME",
        help="decision tree to walk: a name of `oncall playbook list`, or a file (default: what alerts, metrics and "
        "logs call for)",
    )
    parser.add_argument("--compare", action="store_true", help="no console: what changed since the triage before it")
    parser.add_argument("--guide", action="store_true", help="console: one step at a time, yours to overrule")
    parser.add_argument("--read-only", action="store_true", help="console: no action can be run")
    parser.add_argument("--ascii", action="store_true", help="console: no sign beyond ASCII")
    parser.add_argument(
        "--bundle",
        type=Path,
        metavar="DIR",
        help="where to keep the evidence (default: ~/.local/state/oncall/incidents/RUN/TIME)",
    )
    parser.add_argument(
        "--deadline", type=float, metavar="S", help="answer within this many seconds with what there is"
    )


def run(args: argparse.Namespace) -> int:
    """Triage in the console, or without one; then the exit code says what kind of answer it is."""
    if args.deadline is not None and not 0 < args.deadline <= _LONGEST_S:
        raise UsageError(f"--deadline takes a number of seconds above 0, at most {_LONGEST_S:,}")
    console = wants_console(args)
    path = find(args.run)
    described = load(path)
    checked_queries(described, str(path))
    ranks = load_ranks(path, described)
    if args.playbook != AUTOMATIC:
        from oncall.playbook.loader import load as load_playbook

        load_playbook(args.playbook)
    manifest = Manifest(run=described.name, started=datetime.now(UTC), playbook=args.playbook)
    bundle = Bundle.create(manifest, path.read_text(encoding="utf-8"), args.bundle)
    if ranks is not None:
        bundle.write("ranks.json", dump_rank_map(ranks).encode())
    if console:
        from oncall.console.app import run_console
        from oncall.run.nodes import expand_hosts

        return run_console(
            bundle,
            live=True,
            hosts=len(expand_hosts(described.nodes)),
            read_only=args.read_only,
            guide=args.guide,
            ascii_signs=args.ascii,
            deadline_s=args.deadline,
        )
    return _answer(bundle, args)


def wants_console(args: argparse.Namespace) -> bool:
    """Whether a person sits at a terminal and did not ask for the plain answer.

    Raises UsageError where only the console can do what was asked, and there is none.
    """
    plain = args.triage or args.json or getattr(args, "compare", False)
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if getattr(args, "guide", False):
        if plain:
            raise UsageError("--guide walks in the console; --triage, --json and --compare do without", "leave one out")
        if not at_terminal:
            raise UsageError("--guide needs a terminal, on stdin and on stdout", "--triage walks by itself")
    return not plain and at_terminal


async def beside_earlier(report: "Report", bundle: Bundle) -> "Report":
    """The report with what changed since the triage before it; where that cannot be read, without, and stderr says why.

    An answer that is there is not lost over one that is not.
    """
    from oncall.neutral import neutral
    from oncall.report.earlier import compared

    try:
        return await compared(report, bundle)
    except (OncallError, OSError) as error:
        sys.stderr.write(f"oncall: no comparison with the triage before: {neutral(str(error))}\n")
        return report


def _answer(bundle: Bundle, args: argparse.Namespace) -> int:
    import asyncio

    from oncall.report.printing import print_report
    from oncall.report.progress_line import ProgressLine
    from oncall.report.triage import triage

    async def answer() -> "Report":
        report = await triage(bundle, ProgressLine(sys.stderr), deadline_s=args.deadline)
        return await beside_earlier(report, bundle) if args.compare else report

    try:
        report = asyncio.run(answer())
    except KeyboardInterrupt:
        sys.stderr.write(f"\noncall: what was gathered is kept; `oncall replay {bundle.path}` reads it\n")
        raise
    return print_report(report, as_json_text=args.json)
