"""Ask a running job for Flight Recorder dumps through its pipes, and say what they tell. The job runs on.

This is an action: what will be done is shown first, and done only after you have typed the name of the run. Exit code:
as of `oncall fr`; 12 where no dump was written; 2 where you did not confirm. One dump tells of a standstill; whether a
job that moves is slow, and by whom, two tell: `oncall fr BUNDLE --since EARLIER-BUNDLE`.
"""

import argparse
import asyncio
import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from oncall.bundle.store import Bundle, Manifest
from oncall.commands.fr import NO_EVIDENCE, outcome, terminal_width
from oncall.errors import UsageError
from oncall.neutral import neutral
from oncall.run.file import find, load
from oncall.run.model import Run
from oncall.run.nodes import fold_ranks


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `oncall dump`."""
    parser.add_argument("run", metavar="RUN", help="name or path of a run file")
    parser.add_argument("--json", action="store_true", help="as `oncall fr --json`")
    parser.add_argument("--bundle", type=Path, metavar="DIR", help="where to keep the dumps")


def run(args: argparse.Namespace) -> int:
    """Show what will be done, have it confirmed, do it, print the analysis."""
    path = find(args.run)
    described = load(path)
    _confirm(described)

    from oncall.flight_recorder.answer import as_json
    from oncall.flight_recorder.report import as_text
    from oncall.report.manual_dump import dump_now
    from oncall.report.progress_line import ProgressLine

    manifest = Manifest(run=described.name, started=datetime.now(UTC))
    bundle = Bundle.create(manifest, path.read_text(encoding="utf-8"), args.bundle)
    done = asyncio.run(dump_now(bundle, ProgressLine(sys.stderr)))
    for rank, why in sorted(done.not_asked.items()):
        sys.stderr.write(f"oncall: rank {rank} was not asked: {neutral(why)}\n")
    if done.late:
        sys.stderr.write(f"oncall: ranks {fold_ranks(done.late)} were asked and wrote no dump in time\n")
    sys.stderr.write(f"oncall: the dumps are in {bundle.path}\n")
    if done.analysis is None:
        sys.stderr.write("oncall: no dump was written\n")
        sys.stderr.write("  the job needs TORCH_NCCL_DEBUG_INFO_PIPE_FILE; see `[paths] pipes`\n")
        return NO_EVIDENCE
    text = json.dumps(as_json(done.analysis)) + "\n" if args.json else as_text(done.analysis, terminal_width())
    sys.stdout.write(text)
    sys.stderr.write(
        "oncall: one dump does not tell whether the job is slow; dump again in a minute and compare:\n"
        f"  oncall dump {shlex.quote(args.run)} --bundle NEW && oncall fr NEW --since {shlex.quote(str(bundle.path))}\n"
    )
    return outcome(done.analysis)


def _confirm(described: Run) -> None:
    pipes = described.paths.pipes or "$TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
    sys.stderr.write(
        f"Each rank on {described.nodes} is asked for a Flight Recorder dump; the job runs on. On each node:\n\n"
        f"  for pipe in {pipes}*.pipe; do echo 1 >$pipe; done\n\n"
        f"Type the name of the run, {described.name}, to go on: "
    )
    sys.stderr.flush()
    typed = sys.stdin.readline()
    if not typed.endswith("\n"):
        sys.stderr.write("\n")
    if typed.strip() != described.name:
        raise UsageError("not confirmed; nothing was done")
