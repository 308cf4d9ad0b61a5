"""Show what oncall answers, on a recorded incident: no cluster needed.

Exit code: 0, whatever the incident; that of a triage is what `oncall replay` of the same bundle ends with.
"""

import argparse
import sys

from oncall.commands.triage import wants_console
from oncall.errors import UsageError
from oncall.rehearse.incidents import incidents


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the demo."""
    parser.add_argument("incident", nargs="?", metavar="INCIDENT", help="one of those that --list shows")
    parser.add_argument("--list", action="store_true", help="list the recorded incidents")
    parser.add_argument("--triage", action="store_true", help="no console: the answer goes to stdout")
    parser.add_argument("--json", action="store_true", help="no console: the answer as JSON (`oncall schema triage`)")
    parser.add_argument("--ascii", action="store_true", help="console: no sign beyond ASCII")


def run(args: argparse.Namespace) -> int:
    """Open the console on the recorded incidents, or print the answer to one, without a name to the first."""
    recorded = incidents()
    if args.list:
        width = max(map(len, recorded))
        sys.stdout.writelines(f"{name:{width}}  {incident.title}\n" for name, incident in recorded.items())
        return 0
    name = args.incident or next(iter(recorded))
    if name not in recorded:
        raise UsageError(f"no recorded incident {name}", f"there are: {', '.join(recorded)}")
    if wants_console(args):
        from oncall.console.app import run_demo

        chosen = {args.incident: recorded[args.incident]} if args.incident else recorded
        return run_demo({key: (each.title, each.bundle) for key, each in chosen.items()}, ascii_signs=args.ascii)
    import asyncio

    from oncall.report.printing import print_report
    from oncall.report.triage import replay

    print_report(asyncio.run(replay(recorded[name].bundle, lambda _: None)), as_json_text=args.json)
    return 0
