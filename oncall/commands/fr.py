"""Name the origin of a hang from PyTorch Flight Recorder dumps: files or folders, any naming, gloo or NCCL."""

import argparse
import json
import sys
from pathlib import Path

from oncall.errors import UsageError

NOTHING_FOUND = 0
CAUSE_FOUND = 10
UNDECIDED = 11
NO_EVIDENCE = 12


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `oncall fr`."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="DIR|FILE", help="dump files, or folders that hold them")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument(
        "--since", type=Path, metavar="OLD", help="an earlier snapshot of the same ranks: say what moved"
    )
    parser.add_argument("--ranks", metavar="SET", help="only what concerns these ranks, as 0-7,12")
    parser.add_argument("--groups", metavar="NAMES", help="only these process groups, by name or purpose, as mesh_dp,0")
    parser.add_argument("--print", action="store_true", help="list the entries of each rank instead of judging them")
    parser.add_argument("--prefix", help="what stands before the rank in the file names (inferred when not given)")
    parser.add_argument(
        "--world-size", type=int, metavar="N", help="number of ranks of the job, when dumps are missing"
    )
    parser.add_argument("--processes", type=int, metavar="N", help="load with N processes (default: as many as pay)")


def run(args: argparse.Namespace) -> int:
    """Print the analysis; 0 nothing wrong, 10 cause found, 11 undecided, 12 no or not all dumps and nothing wrong."""
    # Imported here to keep `oncall --help` quick.
    from oncall.flight_recorder import Pace, analyse, compare, load_paths
    from oncall.flight_recorder.answer import as_json, movement_json
    from oncall.flight_recorder.listing import list_entries
    from oncall.flight_recorder.report import as_text, narrow

    ranks = None if args.ranks is None else _ranks(args.ranks)
    groups = None if args.groups is None else [name.strip() for name in args.groups.split(",")]
    if args.print:
        for line in list_entries(load_paths(args.paths, prefix=args.prefix, whole=True), ranks, groups):
            sys.stdout.write(line + "\n")
        return NOTHING_FOUND
    dumps = load_paths(args.paths, prefix=args.prefix, processes=args.processes)
    movement = None if args.since is None else compare(dumps, load_paths([args.since], prefix=args.prefix))
    still = movement is not None and movement.pace is Pace.STUCK
    whole = analyse(dumps, world_size=args.world_size, still=still)
    shown = narrow(whole, ranks, groups)
    if args.json:
        answer = as_json(shown) | ({} if movement is None else {"movement": movement_json(movement)})
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        sys.stdout.write(("" if movement is None else movement.says + "\n") + as_text(shown))
    if not whole.coverage.dumps:
        return NO_EVIDENCE
    if whole.origins or (movement and movement.slow):
        return CAUSE_FOUND
    if whole.undecided:
        return UNDECIDED
    return NO_EVIDENCE if whole.coverage.absent else NOTHING_FOUND


def _ranks(text: str) -> set[int]:
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--ranks {text}: not a set of ranks", "write it as 0-7,12")
        chosen.update(range(int(first), int(last or first) + 1))
    return chosen
