"""Walk a recorded incident again: the same answer from its bundle, with no network."""

import argparse
from pathlib import Path

from oncall.bundle.store import Bundle
from oncall.commands.triage import beside_earlier, wants_console


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of a replay."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the folder of an incident")
    parser.add_argument("--triage", action="store_true", help="no console: the answer goes to stdout")
    parser.add_argument("--json", action="store_true", help="no console: the answer as JSON (`oncall schema triage`)")
    parser.add_argument("--compare", action="store_true", help="no console: what changed since the triage before it")
    parser.add_argument("--guide", action="store_true", help="console: one step at a time, yours to overrule")
    parser.add_argument("--read-only", action="store_true", help="console: no action can be run")
    parser.add_argument("--ascii", action="store_true", help="console: no sign beyond ASCII")


def run(args: argparse.Namespace) -> int:
    """Replay a bundle in the console, or without one; then the exit code is that of the triage."""
    bundle = Bundle.open(args.bundle)
    if wants_console(args):
        from oncall.console.app import run_console

        return run_console(bundle, live=False, read_only=args.read_only, guide=args.guide, ascii_signs=args.ascii)
    import asyncio

    from oncall.report.model import Report
    from oncall.report.printing import print_report
    from oncall.report.triage import replay

    async def answer() -> Report:
        report = await replay(bundle, lambda _: None)
        return await beside_earlier(report, bundle) if args.compare else report

    return print_report(asyncio.run(answer()), as_json_text=args.json)
