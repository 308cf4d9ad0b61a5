"""Read files that somebody sent: training and torchrun logs, py-spy, Flight Recorder, kernel and metric dumps.

Each file is recognised by what it holds, compressed (gzip, zstd) or not. Several files of one incident are summed up
together. A folder stands for all files in it; `-` is standard input. Exit code: 0 all were read, whatever they say, 2
one could not be.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from oncall.errors import UsageError
from oncall.flight_recorder import analyse, load_blobs
from oncall.flight_recorder.answer import as_json as recorder_json
from oncall.formats.event import Json, Parsed
from oncall.formats.kernel import read_kernel
from oncall.formats.kinds import kinds_text
from oncall.formats.metrics import read_metrics
from oncall.formats.packed import Unpacked, unpack
from oncall.formats.pyspy import read_pyspy
from oncall.formats.recognise import Format, rank_of_path, recognise
from oncall.formats.steps_trace import read_trace
from oncall.formats.summary import ReadFile, summarise
from oncall.formats.torchrun import read_torchrun
from oncall.neutral import neutral
from oncall.report.read_text import read_text
from oncall.run.nodes import MOST_RANKS

SCHEMA = "oncall.read/1"
MAX_BYTES = 4 * 1024**3
MAX_FILES = 20_000
_UNRECOGNISED_SHOWN = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `oncall read`."""
    parser.add_argument("files", nargs="*", metavar="FILE", help="file or folder; - for standard input")
    parser.add_argument("--json", action="store_true", help=f"print JSON ({SCHEMA}) instead of a table")
    parser.add_argument(
        "--rank", type=int, metavar="N", help="global rank of the files, where path and text are silent"
    )
    parser.add_argument("--kinds", action="store_true", help="print the kinds of events and their fields, then stop")


def _paths(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name != "-" and Path(name).is_dir():
            yield from sorted(_files_in(name))
        else:
            yield name


def _files_in(folder: str) -> Iterator[str]:
    """All files in a folder, and those folders in it that cannot be listed: reading these says why."""
    unlisted: list[str] = []
    for parent, _, files in os.walk(folder, onerror=lambda error: unlisted.append(str(error.filename))):
        yield from (path for path in (os.path.join(parent, name) for name in files) if os.path.isfile(path))
    yield from unlisted


def _raw(name: str) -> bytes:
    try:
        if name == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with Path(name).open("rb") as file:  # bounded: a device has no size and no end
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error


def content(name: str) -> Unpacked:
    """What a file that somebody sent holds, unpacked. Raises UsageError where it cannot be read, or is too large."""
    data = _raw(name)
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} is larger than 4 GiB", f"read its end: tail -c 1G {name} | oncall read -")
    try:
        held = unpack(data, MAX_BYTES)
    except ValueError as error:
        raise UsageError(f"{name} cannot be unpacked: {error}") from error
    if not held.whole:
        sys.stderr.write(f"oncall: {neutral(name)} is cut short or damaged; what could be unpacked of it is read\n")
    return held


def _parse(data: bytes, name: str, rank: int | None, known: Format) -> Parsed:
    if known in {Format.EMPTY, Format.FLIGHT_RECORDER}:
        return Parsed(())
    if known in {Format.KERNEL, Format.METRICS}:
        return (read_kernel if known is Format.KERNEL else read_metrics)(data, name)
    readers = {Format.PYSPY: read_pyspy, Format.TRACE: read_trace}
    return readers.get(known, read_torchrun)(data, name, rank=rank)


def read_file(name: str, rank: int | None = None) -> ReadFile:
    """Read one file; `rank` counts where its path names none. Raises UsageError when it cannot be read.

    A Flight Recorder dump says nothing by itself: `answer` takes all of them together.
    """
    data = content(name).data
    named = rank_of_path(name)
    rank = named if named is not None else rank
    known = recognise(data)
    lines = data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)
    return ReadFile(name, known, rank, lines, _parse(data, name, rank, known))


def _listed(each: ReadFile) -> dict[str, Json]:
    return {
        "file": each.name,
        "format": str(each.format),
        "rank": each.rank,
        "lines": each.lines if each.format is not Format.FLIGHT_RECORDER else None,
        "events": len(each.parsed.events),
        "unrecognised": len(each.parsed.unrecognised),
        "unrecognised_lines": list(each.parsed.unrecognised[:_UNRECOGNISED_SHOWN]),
        "error": None,
    }


def answer(names: Sequence[str], rank: int | None = None) -> dict[str, Json]:
    """The answer of `oncall read --json` on files and folders: `files`, `events`, `summary`.

    A file that cannot be read has its reason in `error`, and the rest is read all the same. Flight Recorder dumps are
    analysed together and stand in `summary.flight_recorder`, under that schema's own version.
    """
    files: list[ReadFile] = []
    listed: list[Json] = []
    for name in names:
        try:
            files.append(read_file(name, rank))
            listed.append(_listed(files[-1]))
        except UsageError as error:
            listed.append({"file": name, "format": None, "error": error.cause.removeprefix(f"{name}: ")})
    summary = summarise(files)
    dumps = [each.name for each in files if each.format is Format.FLIGHT_RECORDER and each.name != "-"]
    if dumps:
        summary["flight_recorder"] = recorder_json(analyse(load_blobs((name, _raw(name)) for name in dumps)))
    events: list[Json] = [event.as_json() for each in files for event in each.parsed.events]
    return {"schema": SCHEMA, "files": listed, "events": events, "summary": summary}


def run(args: argparse.Namespace) -> int:
    """Read the files and print what they say; 2 when one of them could not be read."""
    if args.kinds:
        sys.stdout.write(kinds_text())
        return 0
    if args.rank is not None and not 0 <= args.rank < MOST_RANKS:
        raise UsageError(f"--rank must be between 0 and {MOST_RANKS - 1:,}")
    names = list(_paths(args.files))
    if not names:
        where = f" in {', '.join(args.files)}" if args.files else ""
        raise UsageError(f"no file to read{where}", "oncall read FILE…, or - for standard input")
    if len(names) > MAX_FILES:
        raise UsageError(f"{len(names)} files are more than {MAX_FILES}", "name the files or a smaller folder")
    said = answer(names, args.rank)
    sys.stdout.write(json.dumps(said, indent=1, allow_nan=False) + "\n" if args.json else read_text(said))
    files = said["files"]
    return 2 if isinstance(files, list) and any(isinstance(each, dict) and each["error"] for each in files) else 0
