"""Read files that somebody sent: training and torchrun logs, py-spy, Flight Recorder, kernel and metric dumps.

Each file is recognised by what it holds, compressed (gzip, zstd) or not. Several files of one incident are summed up
together. A folder stands for all files in it; `-` is standard input.
"""

import argparse
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import zstandard

from oncall.errors import UsageError
from oncall.flight_recorder import analyse, load_blobs
from oncall.flight_recorder.answer import as_json as recorder_json
from oncall.formats.event import Json, Parsed
from oncall.formats.kernel import read_kernel
from oncall.formats.kinds import kinds_text
from oncall.formats.metrics import read_metrics
from oncall.formats.pyspy import read_pyspy
from oncall.formats.recognise import Format, rank_of_path, recognise
from oncall.formats.steps_trace import read_trace
from oncall.formats.summary import ReadFile, summarise
from oncall.formats.torchrun import read_torchrun
from oncall.report.read_text import read_text

SCHEMA = "oncall.read/1"
MAX_BYTES = 4 * 1024**3
MAX_FILES = 20_000
_UNRECOGNISED_SHOWN = 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


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


def _unpacked(data: bytes, name: str) -> bytes:
    try:
        if data.startswith(_GZIP):
            return zlib.decompressobj(wbits=31).decompress(data, MAX_BYTES)
        if data.startswith(_ZSTD):
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                return bytes(reader.read(MAX_BYTES))
    except (zlib.error, zstandard.ZstdError) as error:
        raise UsageError(f"{name} cannot be unpacked: {error}") from None
    return data


def _content(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(MAX_BYTES)
    path = Path(name)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{name} is larger than 4 GiB", f"read its end: tail -c 1G {name} | oncall read -")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error


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
    data = _unpacked(_content(name), name)
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
        summary["flight_recorder"] = recorder_json(analyse(load_blobs((name, _content(name)) for name in dumps)))
    events: list[Json] = [event.as_json() for each in files for event in each.parsed.events]
    return {"schema": SCHEMA, "files": listed, "events": events, "summary": summary}


def run(args: argparse.Namespace) -> int:
    """Read the files and print what they say; 2 when one of them could not be read."""
    if args.kinds:
        sys.stdout.write(kinds_text())
        return 0
    names = list(_paths(args.files))
    if not names:
        raise UsageError("no file to read", "oncall read FILE…, or - for standard input")
    if len(names) > MAX_FILES:
        raise UsageError(f"{len(names)} files are more than {MAX_FILES}", "name the files or a smaller folder")
    said = answer(names, args.rank)
    sys.stdout.write(json.dumps(said, indent=1, allow_nan=False) + "\n" if args.json else read_text(said))
    files = said["files"]
    return 2 if isinstance(files, list) and any(isinstance(each, dict) and each["error"] for each in files) else 0
