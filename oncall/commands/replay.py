"""Walk a recorded incident again: the same answer from its bundle, with no network."""

import argparse
import asyncio
from pathlib import Path

from oncall.bundle.store import Bundle
from oncall.report.printing import print_report
from oncall.report.triage import replay


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of a replay."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the folder of an incident")
    parser.add_argument("--triage", action="store_true", help="no console: the answer goes to stdout")
    parser.add_argument("--json", action="store_true", help="the answer as JSON (`oncall schema triage`)")


def run(args: argparse.Namespace) -> int:
    """Replay a bundle; the exit code is that of the triage."""
    report = asyncio.run(replay(Bundle.open(args.bundle), lambda _: None))
    return print_report(report, as_json_text=args.json)
