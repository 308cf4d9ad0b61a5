"""Name the origin of a hang from PyTorch Flight Recorder dumps: files, folders or a bundle, any naming, gloo or NCCL.

Exit code: 0 all ranks' dumps are here and nothing is wrong, 10 cause found, 11 something is wrong and undecided, 12 no
dump could be read, or nothing wrong is seen and that proves nothing: dumps are missing, or ranks wait, which only a
second snapshot explains (--since), or the two do not tell whether a rank is slow. With --print: 0, or 12 where it lists
none.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from oncall.errors import UsageError
from oncall.neutral import neutral
from oncall.run.nodes import MOST_RANKS, expand_ranks, fold_ranks, name_folded

if TYPE_CHECKING:
    from oncall.flight_recorder.groups import Groups
    from oncall.flight_recorder.model import Analysis, DumpSet
    from oncall.flight_recorder.snapshots import Movement

NOTHING_FOUND = 0
CAUSE_FOUND = 10
UNDECIDED = 11
NO_EVIDENCE = 12
_MOST_PROCESSES = 64
_COLUMNS = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `oncall fr`."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="DIR|FILE|BUNDLE", help="dumps, or what holds them")
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
    """Print the analysis, or the entries; the exit code is that of `outcome`."""
    # Imported here to keep `oncall --help` quick.
    from oncall.flight_recorder import Pace, analyse, compare
    from oncall.flight_recorder.groups import resolve
    from oncall.flight_recorder.narrowing import narrow

    _within("--world-size", args.world_size, MOST_RANKS)
    _within("--processes", args.processes, _MOST_PROCESSES)
    ranks = None if args.ranks is None else _ranks(args.ranks)
    names = None if args.groups is None else [name.strip() for name in args.groups.split(",")]
    dumps = _load(args, args.paths)
    groups = resolve(dumps.dumps, args.world_size)
    _tell_unknown(names, groups)
    if args.print:
        return _list(dumps, ranks, names)
    movement = None if args.since is None else compare(dumps, _load(args, [args.since]))
    still = movement is not None and movement.pace is Pace.STUCK
    whole = analyse(dumps, world_size=args.world_size, still=still)
    _refuse_unknown(ranks, dumps, whole)
    shown = narrow(whole, groups, ranks, names)
    hidden = _findings(whole) - _findings(shown)
    if hidden:
        sys.stderr.write(f"oncall: {hidden} of {_findings(whole)} findings concern none of --ranks and --groups\n")
    _print(shown, movement, hidden, as_json_text=args.json)
    return outcome(whole, movement)


def _print(analysis: "Analysis", movement: "Movement | None", hidden: int, *, as_json_text: bool) -> None:
    from oncall.flight_recorder.answer import as_json, movement_json
    from oncall.flight_recorder.layout import wrapped
    from oncall.flight_recorder.report import as_text

    if as_json_text:
        answer = as_json(analysis) | ({} if movement is None else {"movement": movement_json(movement)})
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
        return
    width = terminal_width()
    moved = [] if movement is None else wrapped(movement.says, width)
    sys.stdout.write("".join(f"{line}\n" for line in moved) + as_text(analysis, width, hidden))


def terminal_width() -> int:
    """The columns of the terminal, or of COLUMNS; as many as read well where there is none."""
    return shutil.get_terminal_size((_COLUMNS, 0)).columns


def _load(args: argparse.Namespace, paths: list[Path]) -> "DumpSet":
    """The dumps of files and folders, or of one bundle, where they lie inside the answers of the nodes."""
    from oncall.flight_recorder import load_paths

    bundle = next((path for path in paths if (path / "manifest.json").is_file()), None)
    if bundle is None:
        return load_paths(paths, prefix=args.prefix, whole=args.print, processes=args.processes)
    if len(paths) > 1:
        raise UsageError(f"{bundle} is a bundle, which is judged alone", "compare two with --since")
    from oncall.bundle.store import Bundle
    from oncall.report.manual_dump import dumps_of

    dumps = dumps_of(Bundle.open(bundle))
    if dumps is None:
        raise UsageError(f"{bundle}: no Flight Recorder dump was fetched into this bundle")
    return dumps


def _list(dumps: "DumpSet", ranks: set[int] | None, groups: list[str] | None) -> int:
    from oncall.flight_recorder.listing import list_entries

    sys.stdout.writelines(f"{line}\n" for line in list_entries(dumps, ranks, groups))
    listed = any(ranks is None or rank in ranks for rank in dumps.dumps)
    if not listed:
        sys.stderr.write("oncall: no usable dump\n")
    return NOTHING_FOUND if listed else NO_EVIDENCE


def _findings(analysis: "Analysis") -> int:
    return len(analysis.origins) + len(analysis.undecided)


def _tell_unknown(names: list[str] | None, groups: "Groups") -> None:
    from oncall.flight_recorder.narrowing import unknown_names

    unknown = unknown_names(groups, names or ())
    if unknown:
        there = ", ".join(sorted({group.label for group in groups.known})) or "none"
        sys.stderr.write(
            f"oncall: --groups: no group is called {neutral(', '.join(unknown))}; there are: {neutral(there)}\n"
        )


def outcome(analysis: "Analysis", movement: "Movement | None" = None) -> int:
    """The exit code of an analysis, all of it: what was asked to be shown does not change what is wrong.

    Ranks that wait in one snapshot alone are not cleared: a running job looks like that, and so does one that hangs.
    """
    from oncall.flight_recorder import Grade, Pace

    if not analysis.coverage.dumps:
        return NO_EVIDENCE
    if any(origin.grade is not Grade.UNDECIDED for origin in analysis.origins) or (movement and movement.slow):
        return CAUSE_FOUND
    if analysis.origins or analysis.undecided or (movement and movement.pace is Pace.STUCK):
        return UNDECIDED
    cleared = movement.pace is Pace.RUNNING if movement else not analysis.waiting
    return NOTHING_FOUND if cleared and not analysis.coverage.absent else NO_EVIDENCE


def _refuse_unknown(ranks: set[int] | None, dumps: "DumpSet", analysis: "Analysis") -> None:
    """Silence about a rank that nothing is known of would read as good news."""
    known = {*dumps.dumps, *(absent.rank for absent in analysis.coverage.absent)}
    if ranks is not None and known and not ranks & known:
        raise UsageError(
            f"--ranks: there is no dump of {name_folded(fold_ranks(ranks))}", f"there are {fold_ranks(known)}"
        )


def _within(option: str, given: int | None, most: int) -> None:
    if given is not None and not 1 <= given <= most:
        raise UsageError(f"{option} must be between 1 and {most:,}")


def _ranks(text: str) -> set[int]:
    try:
        return set(expand_ranks(text))
    except ValueError as error:
        raise UsageError(f"--ranks: {error}", "write it as 0-7,12") from error
