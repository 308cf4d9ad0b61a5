"""Finds the dumps among files of any naming and reads them, one at a time; a bad file is named and the rest goes on."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import zstandard

from oncall.errors import UsageError
from oncall.flight_recorder.digest import Digester
from oncall.flight_recorder.model import DumpSet, RankDump, Refused
from oncall.flight_recorder.naming import rank_of, settle_ranks
from oncall.flight_recorder.reduce import (
    GZIP_MARK,
    MAX_FILE_BYTES,
    REDUCED_MARK,
    DumpError,
    decode_row,
    load_dump,
    reduce_dump,
    unpack_gzip,
)

_ZSTD_MARK = b"\x28\xb5\x2f\xfd"


def load_paths(paths: Sequence[Path], *, prefix: str | None = None, whole: bool = False) -> DumpSet:
    """Read dumps from files and folders, searched to any depth; raises UsageError when a path does not exist.

    `prefix` is what the recorder was told to put before the rank (`TORCH_NCCL_DEBUG_INFO_TEMP_FILE`); without it the
    number at the end of each name is the rank. `whole` keeps every entry, for a listing; the analysis needs it not.
    """
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"no such file or folder: {', '.join(missing)}")
    return _load(_read_all(paths), prefix, whole)


def load_blobs(blobs: Iterable[tuple[str, bytes]], *, prefix: str | None = None) -> DumpSet:
    """Read dumps from (name as on the node, content); a folder in front of the name is taken for the host."""
    return _load(blobs, prefix, whole=False)


def _read_all(paths: Sequence[Path]) -> Iterator[tuple[str, bytes | Refused]]:
    for path in paths:
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            name = str(file.relative_to(path)) if path.is_dir() else file.name
            try:
                if file.stat().st_size > MAX_FILE_BYTES:
                    yield name, Refused(name, "larger than any dump", None)
                else:
                    yield name, file.read_bytes()
            except OSError as error:
                yield name, Refused(name, f"cannot be read: {error.strerror}", None)


def _load(blobs: Iterable[tuple[str, bytes | Refused]], prefix: str | None, whole: bool) -> DumpSet:
    digester = Digester()
    found: list[RankDump] = []
    refused: list[Refused] = []
    with _without_gc():
        for name, content in blobs:
            rank = rank_of(name, prefix)
            if isinstance(content, Refused):
                refused.append(content)
                continue
            try:
                rows = _read_one(name, content, prefix, digester, whole)
            except DumpError as error:
                rows = [Refused(name, str(error), rank)]
            found += [row for row in rows if isinstance(row, RankDump)]
            refused += [row for row in rows if isinstance(row, Refused)]
    dumps, twice, notes = settle_ranks(found)
    return DumpSet(dumps, tuple(refused) + twice, notes)


def _read_one(
    name: str, content: bytes, prefix: str | None, digester: Digester, whole: bool
) -> list[RankDump | Refused]:
    data = _unpack(content)
    if not data.startswith(REDUCED_MARK):
        reduced = reduce_dump(load_dump(data), whole)
        return [_digest(name, name, reduced, prefix, digester)]
    rows: list[RankDump | Refused] = []
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
        try:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                return bytes(reader.read(MAX_FILE_BYTES))
        except zstandard.ZstdError as error:
            raise DumpError(f"cannot be unpacked: {error}") from None
    return data


@contextmanager
def _without_gc() -> Iterator[None]:
    """Millions of small objects without a cycle: the collector's passes would cost several times the load itself."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
