"""Show what a triage answers, on a recorded incident: no cluster needed."""

import argparse
import asyncio
import sys

from oncall.errors import UsageError
from oncall.rehearse.incidents import incidents
from oncall.report.printing import print_report
from oncall.report.triage import replay


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the demo."""
    parser.add_argument("incident", nargs="?", metavar="INCIDENT", help="one of those that --list shows")
    parser.add_argument("--list", action="store_true", help="list the recorded incidents")
    parser.add_argument("--triage", action="store_true", help="no console: the answer goes to stdout")
    parser.add_argument("--json", action="store_true", help="the answer as JSON (`oncall schema triage`)")


def run(args: argparse.Namespace) -> int:
    """Replay one recorded incident; without a name the first."""
    recorded = incidents()
    if args.list:
        width = max(map(len, recorded))
        sys.stdout.writelines(f"{name:{width}}  {incident.title}\n" for name, incident in recorded.items())
        return 0
    name = args.incident or next(iter(recorded))
    if name not in recorded:
        raise UsageError(f"no recorded incident {name}", f"there are: {', '.join(recorded)}")
    report = asyncio.run(replay(recorded[name].bundle, lambda _: None))
    print_report(report, as_json_text=args.json)
    return 0
