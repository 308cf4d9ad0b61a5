"""Name the origin of a hang from PyTorch Flight Recorder dumps: files, folders, any naming, gloo or NCCL."""

import argparse
import json
import sys
from pathlib import Path

NOTHING_FOUND = 0
CAUSE_FOUND = 10
UNDECIDED = 11
NO_EVIDENCE = 12


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `oncall fr`."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="DIR|FILE", help="dump files, or folders that hold them")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--prefix", help="what stands before the rank in the file names (inferred when not given)")
    parser.add_argument(
        "--world-size", type=int, metavar="N", help="number of ranks of the job, when dumps are missing"
    )


def run(args: argparse.Namespace) -> int:
    """Print the analysis; 0 nothing wrong found, 10 cause found, 11 undecided, 12 no usable dump."""
    from oncall.flight_recorder import analyse, load_paths  # noqa: PLC0415  # keeps `oncall --help` quick
    from oncall.flight_recorder.report import as_json, as_text  # noqa: PLC0415

    analysis = analyse(load_paths(args.paths, prefix=args.prefix), world_size=args.world_size)
    sys.stdout.write(json.dumps(as_json(analysis), indent=2) + "\n" if args.json else as_text(analysis))
    if not analysis.coverage.dumps:
        return NO_EVIDENCE
    if analysis.origins:
        return CAUSE_FOUND
    return UNDECIDED if analysis.undecided else NOTHING_FOUND
