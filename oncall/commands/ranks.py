"""Show which rank runs where: host, local rank, GPU, parallel coordinate.

It is read from the rank map that the run file names (`[ranks] file`), else found from the processes on the nodes. Exit
code: 0 shown, 12 no rank was found, 2 the run file or its rank map is wrong.
"""

import argparse
import asyncio
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from oncall.bundle.probe_folder import write_whole
from oncall.bundle.store import Bundle, Manifest
from oncall.neutral import neutral
from oncall.report.progress_line import ProgressLine
from oncall.report.triage import find_ranks
from oncall.run.file import find, load, load_ranks
from oncall.run.nodes import fold_ranks
from oncall.run.ranks import Place, RankMap, dump_rank_map

NO_EVIDENCE = 12


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `oncall ranks`."""
    parser.add_argument("run", metavar="RUN", help="name or path of a run file")
    parser.add_argument("--json", action="store_true", help="as JSON, in the form of a rank map file")
    parser.add_argument("--save", action="store_true", help="write RUN.ranks.json beside the run file")


def run(args: argparse.Namespace) -> int:
    """Print the rank map of the run's file, or what the processes on the nodes tell."""
    path = find(args.run)
    described = load(path)
    given = load_ranks(path, described)
    ranks, coverage = _found(path, described.name) if given is None else (given, None)
    if not ranks.places:
        sys.stderr.write(f"oncall: no rank of {described.name} was found: {neutral(coverage or 'no node was asked')}\n")
        sys.stderr.write("  is the job running, and do `nodes`, `[reach]` and `[processes]` of the run file fit?\n")
        return NO_EVIDENCE
    if args.save:
        target = path.with_name(f"{path.stem}.ranks.json")
        write_whole(target, dump_rank_map(ranks).encode())
        sys.stderr.write(f'wrote {neutral(str(target))}; name it in the run file: [ranks] file = "{target.name}"\n')
    if args.json:
        sys.stdout.write(dump_rank_map(ranks))
    else:
        _print(ranks)
    return 0


def _found(path: Path, run: str) -> tuple[RankMap, str | None]:
    """What the processes on the nodes tell, and how many of the nodes answered."""
    manifest = Manifest(run=run, started=datetime.now(UTC))
    with tempfile.TemporaryDirectory() as folder:
        bundle = Bundle.create(manifest, path.read_text(encoding="utf-8"), Path(folder) / "bundle")
        ranks = asyncio.run(find_ranks(bundle, ProgressLine(sys.stderr)))
        evidence = bundle.evidence("processes")
        return ranks, None if evidence is None else evidence.coverage.describe()


def _print(ranks: RankMap) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("rank", "host", "local", "gpu", "uuid", "port", "coordinate"):
        table.add_column(title)
    for rank in sorted(ranks.places):
        table.add_row(*map(neutral, _row(ranks.places[rank])))
    console = Console(markup=False, highlight=False)
    console.print(table)
    missing = ranks.ranks - ranks.places.keys()
    size = ranks.world_size if ranks.world_size is not None else "not known"
    console.print(f"world size {size}; {len(ranks.places)} ranks placed, from {neutral(ranks.source)}")
    if missing:
        console.print(f"not placed: ranks {fold_ranks(missing)}")


def _row(place: Place) -> tuple[str, ...]:
    cells = (place.local_rank, place.gpu_index, place.gpu_uuid, place.port)
    coordinate = " ".join(f"{name}={index}" for name, index in place.coordinate.items())
    return (str(place.rank), place.host, *("-" if cell is None else str(cell) for cell in cells), coordinate)
