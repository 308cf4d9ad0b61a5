"""Finds the dumps among files of any naming and reads them, one at a time; a bad file is named and the rest goes on."""

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from oncall.errors import UsageError
from oncall.flight_recorder.collector import without_collector
from oncall.flight_recorder.digest import Digester
from oncall.flight_recorder.forked import at_once
from oncall.flight_recorder.model import DumpSet, RankDump, Refused
from oncall.flight_recorder.naming import rank_of, settle_ranks
from oncall.flight_recorder.parcel import Row
from oncall.flight_recorder.reduce import (
    GZIP_MARK,
    MAX_FILE_BYTES,
    REDUCED_MARK,
    DumpError,
    decode_row,
    load_dump,
    reduce_dump,
    unpack_gzip,
    with_deep_stack,
)

_BYTES_A_PROCESS = 8 << 20
_ZSTD_MARK = b"\x28\xb5\x2f\xfd"


def load_paths(
    paths: Sequence[Path], *, prefix: str | None = None, whole: bool = False, processes: int | None = None
) -> DumpSet:
    """Read dumps from files and folders, searched to any depth; raises UsageError when a path does not exist.

    `prefix` is what the recorder was told to put before the rank (`TORCH_NCCL_DEBUG_INFO_TEMP_FILE`); without it the
    number at the end of each name is the rank. `whole` keeps every entry, for a listing; the analysis needs it not.
    Without a number of `processes` there are as many as pay.
    """
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"no such file or folder: {', '.join(missing)}")
    files = [named for path in paths for named in _files(path)]
    processes = processes or _that_pay(files)
    shares = [files[start::processes] for start in range(processes)]
    with without_collector():
        return _settle(at_once([partial(_load_files, share, prefix, whole) for share in shares]))


def load_blobs(blobs: Iterable[tuple[str, bytes]], *, prefix: str | None = None) -> DumpSet:
    """Read dumps from (name as on the node, content); a folder in front of the name is taken for the host."""
    return _settle(_load(blobs, prefix, whole=False))


def _files(path: Path) -> list[tuple[str, Path]]:
    if not path.is_dir():
        return [(f"{path.absolute().parent.name}/{path.name}", path)]
    return [(str(file.relative_to(path)), file) for file in sorted(path.rglob("*")) if file.is_file()]


def _that_pay(files: Sequence[tuple[str, Path]]) -> int:
    """Starting a process and taking over what it loaded costs as much as reading some megabytes."""
    return max(1, min(os.cpu_count() or 1, sum(_size(file) for _, file in files) // _BYTES_A_PROCESS))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _load_files(files: Sequence[tuple[str, Path]], prefix: str | None, whole: bool) -> list[Row]:
    return _load(((name, _read(name, file)) for name, file in files), prefix, whole)


def _read(name: str, file: Path) -> bytes | Refused:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            return Refused(name, "larger than any dump", rank_of(name, None))
        return file.read_bytes()
    except OSError as error:
        return Refused(name, f"cannot be read: {error.strerror}", rank_of(name, None))


def _load(blobs: Iterable[tuple[str, bytes | Refused]], prefix: str | None, whole: bool) -> list[Row]:
    return with_deep_stack(partial(_load_each, blobs, prefix, whole))


def _load_each(blobs: Iterable[tuple[str, bytes | Refused]], prefix: str | None, whole: bool) -> list[Row]:
    digester = Digester()
    rows: list[Row] = []
    with without_collector():
        for name, content in blobs:
            if isinstance(content, Refused):
                rows.append(content)
                continue
            try:
                rows += _read_one(name, content, prefix, digester, whole)
            except DumpError as error:
                rows.append(Refused(name, str(error), rank_of(name, prefix)))
    return rows


def _settle(rows: Sequence[Row]) -> DumpSet:
    dumps, twice, notes = settle_ranks([row for row in rows if isinstance(row, RankDump)])
    refused = [row for row in rows if isinstance(row, Refused)]
    return DumpSet(dumps, (*sorted(refused, key=lambda r: r.source), *twice), notes)


def _read_one(name: str, content: bytes, prefix: str | None, digester: Digester, whole: bool) -> list[Row]:
    data = _unpack(content)
    if not data.startswith(REDUCED_MARK):
        reduced = reduce_dump(load_dump(data), whole)
        return [_digest(name, name, reduced, prefix, digester)]
    rows: list[Row] = []
    for line in data.splitlines():
        own_name, reduced = decode_row(line)
        if "refused" in reduced:
            rows.append(Refused(own_name, str(reduced["refused"])[:200], rank_of(own_name, prefix)))
        else:
            rows.append(_digest(own_name, name, reduced, prefix, digester))
    return rows


def _digest(name: str, carrier: str, reduced: dict[str, Any], prefix: str | None, digester: Digester) -> RankDump:
    rank = rank_of(name, prefix)
    if rank is None:
        raise DumpError("no rank: the name does not end in a number" + (f" after {prefix!r}" if prefix else ""))
    parent = PurePosixPath(name).parent.name or PurePosixPath(carrier).parent.name
    return digester.digest(reduced, rank, name, parent or None)


def _unpack(data: bytes) -> bytes:
    if data.startswith(GZIP_MARK):
        return unpack_gzip(data)
    if data.startswith(_ZSTD_MARK):
        import zstandard  # noqa: PLC0415  # a tenth of the time that a small set of plain dumps takes

        try:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                return bytes(reader.read(MAX_FILE_BYTES))
        except zstandard.ZstdError as error:
            raise DumpError(f"cannot be unpacked: {error}") from None
    return data
