"""Find out why a training run stopped: ask every node, walk the decision tree, say what broke and what to do."""

import argparse
import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from oncall.bundle.store import Bundle, Manifest
from oncall.errors import UsageError
from oncall.playbook.loader import load as load_playbook
from oncall.report.printing import print_report
from oncall.report.progress_line import ProgressLine
from oncall.report.triage import triage
from oncall.run.file import find, load, load_ranks
from oncall.run.ranks import dump_rank_map


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of a triage."""
    parser.add_argument("run", metavar="RUN", help="name or path of a run file")
    parser.add_argument("--triage", action="store_true", help="no console: the answer goes to stdout")
    parser.add_argument("--json", action="store_true", help="the answer as JSON (`oncall schema triage`)")
    parser.add_argument("--playbook", default="hang", metavar="NAME", help="decision tree to walk (default: hang)")
    parser.add_argument("--bundle", type=Path, metavar="DIR", help="where to keep the evidence")
    parser.add_argument(
        "--deadline", type=float, metavar="S", help="answer within this many seconds with what there is"
    )


def run(args: argparse.Namespace) -> int:
    """Run a triage; the exit code says what kind of answer it is."""
    if args.deadline is not None and args.deadline <= 0:
        raise UsageError("--deadline takes a number of seconds above 0")
    load_playbook(args.playbook)
    path = find(args.run)
    described = load(path)
    ranks = load_ranks(path, described)
    manifest = Manifest(run=described.name, started=datetime.now(UTC), playbook=args.playbook)
    bundle = Bundle.create(manifest, path.read_text(encoding="utf-8"), args.bundle)
    if ranks is not None:
        bundle.write("ranks.json", dump_rank_map(ranks).encode())
    try:
        report = asyncio.run(triage(bundle, ProgressLine(sys.stderr), deadline_s=args.deadline))
    except KeyboardInterrupt:
        sys.stderr.write(f"\noncall: what was gathered is kept; `oncall replay {bundle.path}` reads it\n")
        raise
    return print_report(report, as_json_text=args.json)
