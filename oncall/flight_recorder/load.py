"""Finds the dumps among files of any naming and reads them, one at a time; a bad file is named and the rest goes on."""

import base64
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from oncall.errors import UsageError
from oncall.flight_recorder.collector import without_collector
from oncall.flight_recorder.digest import Digester
from oncall.flight_recorder.files import Named, files_under, read
from oncall.flight_recorder.forked import at_once
from oncall.flight_recorder.model import DumpSet, RankDump, Refused
from oncall.flight_recorder.naming import folder_of
from oncall.flight_recorder.parcel import Row
from oncall.flight_recorder.placing import UNPLACED, settle_ranks
from oncall.flight_recorder.reduce import (
    GZIP_MARK,
    MAX_FILE_BYTES,
    REDUCED_MARK,
    ZSTD_MARK,
    DumpError,
    decode_row,
    load_dump,
    reduce_dump,
    unpack_gzip,
    with_deep_stack,
)

_BYTES_A_PROCESS = 8 << 20


def load_paths(
    paths: Sequence[Path], *, prefix: str | None = None, whole: bool = False, processes: int | None = None
) -> DumpSet:
    """Read dumps from files and folders, searched to any depth; raises UsageError when a path does not exist.

    `prefix` is what the recorder was told to put before the rank (`TORCH_NCCL_DEBUG_INFO_TEMP_FILE`); without it the
    number in the names that fits the dumps is the rank. `whole` keeps every entry, for a listing; the analysis needs it
    not.
    Without a number of `processes` there are as many as pay.
    """
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise UsageError(f"no such file or folder: {', '.join(missing)}")
    found = [files_under(path) for path in paths]
    files = [named for some, _ in found for named in some]
    closed = [folder for _, some in found for folder in some]
    processes = processes or _that_pay(files)
    shares = [files[start::processes] for start in range(processes)]
    with without_collector():
        rows = at_once([partial(_load_files, share, whole) for share in shares])
        return settle_ranks([*rows, *closed], prefix)


def load_blobs(blobs: Iterable[tuple[str, bytes]], *, prefix: str | None = None) -> DumpSet:
    """Read dumps from (name as on the node, content); a folder in front of the name is taken for the host."""
    return settle_ranks(_load(blobs, whole=False), prefix)


def _that_pay(files: Sequence[tuple[str, Path]]) -> int:
    """Starting a process and taking over what it loaded costs as much as reading some megabytes."""
    return max(1, min(os.cpu_count() or 1, sum(_size(file) for _, file in files) // _BYTES_A_PROCESS))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _load_files(files: Sequence[Named], whole: bool) -> list[Row]:
    return _load(((name, read(name, file)) for name, file in files), whole)


def _load(blobs: Iterable[tuple[str, bytes | Refused]], whole: bool) -> list[Row]:
    return with_deep_stack(partial(_load_each, blobs, whole))


def _load_each(blobs: Iterable[tuple[str, bytes | Refused]], whole: bool) -> list[Row]:
    digester = Digester()
    rows: list[Row] = []
    with without_collector():
        for name, content in blobs:
            if isinstance(content, Refused):
                rows.append(content)
                continue
            try:
                rows += _read_one(name, content, digester, whole)
            except DumpError as error:
                rows.append(Refused(name, str(error), None))
    return rows


def _read_one(name: str, content: bytes, digester: Digester, whole: bool) -> list[Row]:
    data = _unpack(content)
    if not data.startswith(REDUCED_MARK):
        return [_digest(name, name, reduce_dump(load_dump(data), whole), digester)]
    rows: list[Row] = []
    for line in data.splitlines():
        own_name, reduced = decode_row(line)
        if "refused" in reduced:
            rows.append(Refused(own_name, str(reduced["refused"])[:200], None))
        elif "whole" in reduced:
            rows += _handed_over(own_name, name, reduced["whole"], digester)
        else:
            rows.append(_digest(own_name, name, reduced, digester))
    return rows


def _handed_over(name: str, carrier: str, packed: object, digester: Digester) -> list[Row]:
    """A file that could not be opened on its node."""
    try:
        content = base64.b64decode(packed if isinstance(packed, str) else "", validate=True)
        return [_digest(name, carrier, reduce_dump(load_dump(_unpack(content))), digester)]
    except (DumpError, ValueError) as error:
        return [Refused(name, str(error), None)]


def _digest(name: str, carrier: str, reduced: dict[str, Any], digester: Digester) -> RankDump:
    return digester.digest(reduced, UNPLACED, name, folder_of(name) or folder_of(carrier) or None)


def _unpack(data: bytes) -> bytes:
    if data.startswith(GZIP_MARK):
        return unpack_gzip(data)
    if data.startswith(ZSTD_MARK):
        import zstandard  # noqa: PLC0415  # a tenth of the time that a small set of plain dumps takes

        try:
            with zstandard.ZstdDecompressor().stream_reader(data) as reader:
                return bytes(reader.read(MAX_FILE_BYTES))
        except zstandard.ZstdError as error:
            raise DumpError(f"cannot be unpacked: {error}") from None
    return data
