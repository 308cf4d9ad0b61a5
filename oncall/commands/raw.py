"""Print one rank's evidence as it was gathered: its stack, or its Flight Recorder entries, from a bundle.

The console shows the same where a rank is opened. The whole answer of a node is a file of the bundle: `seen.nodes` of
`--json` names it for each probe.
"""

import argparse
from pathlib import Path

from oncall.bundle.store import Bundle
from oncall.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `oncall raw`."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the folder of an incident")
    parser.add_argument("rank", type=int, metavar="RANK", help="global rank")
    parser.add_argument(
        "what",
        metavar="stack|dump",
        choices=("stack", "dump"),
        help="stack: every thread; dump: Flight Recorder entries",
    )


def run(args: argparse.Namespace) -> int:
    """Print the lines. Raises UsageError with the reason where the bundle has nothing of this rank."""
    import asyncio
    import sys

    from oncall.console.orders import ShowRaw
    from oncall.console.raw import raw_text
    from oncall.neutral import neutral
    from oncall.report.triage import recorded_case

    case = asyncio.run(recorded_case(Bundle.open(args.bundle)))
    raw = raw_text(case, ShowRaw(args.what, args.rank), args.bundle)
    if raw.by_hand is None:
        raise UsageError("; ".join(raw.lines))
    sys.stdout.writelines(f"{neutral(line)}\n" for line in raw.lines)
    return 0
