"""The Flight Recorder dumps that lie on the nodes, and the dumps themselves once they were fetched."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from oncall.bundle.evidence import Evidence, Part
from oncall.readings.clock import age_s, node_clock

_MOST_BYTES = 512 * 1024 * 1024
"""A dump that unpacks to more is no Flight Recorder dump: 20,000 entries take 3 MB."""
_HANDLER = "fr_trace_json"
"""The debug server's handler that gives the recorder's entries (PyTorch 2.13, torch/distributed/debug)."""


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One dump on one node. `size` in bytes, `age_s` by the node's clock."""

    host: str
    path: str
    size: int | None
    age_s: float | None

    @property
    def source(self) -> str:
        """The name under which its bytes are loaded: `host/path`."""
        return f"{self.host}{self.path}"


@dataclass(frozen=True, slots=True)
class DumpList:
    """All dumps seen; `missing_folders` maps a host to the folder that it lacks.

    `live` maps a rank to the host on which PyTorch's debug server gives its recorder without a file.
    """

    files: tuple[DumpFile, ...]
    missing_folders: dict[str, str]
    live: dict[int, str]


def dump_list(evidence: Evidence) -> DumpList:
    """Read the answers of the `dumps` or `flight_recorder` probe."""
    files = []
    missing = {}
    live = {}
    for host in evidence.asked:
        parts = evidence.parts(host)
        clock = node_clock(evidence.answers.get(host), parts)
        for part in parts:
            if part.name in {"listed", "dump"}:
                age = age_s(clock, part.number("mtime"))
                files.append(DumpFile(host, part.attributes.get("path", ""), part.number("size"), age))
            elif part.name == "no-folder":
                missing[host] = part.attributes.get("path", "")
            elif _gives_recorder(part) and (rank := part.number("rank")) is not None:
                live[rank] = host
    return DumpList(tuple(files), missing, live)


def _gives_recorder(part: Part) -> bool:
    """Whether this is a debug server that has a handler for the recorder, or its answer."""
    return part.name == "live-dump" or (part.name == "live" and f'"{_HANDLER}"' in part.text)


def dump_blobs(evidence: Evidence) -> Iterator[tuple[str, bytes]]:
    """Each fetched dump as (`host/path`, bytes), one at a time; a damaged transfer gives what came of it."""
    for host, part in evidence.all_parts("dump", cut=True):
        packed = part.attributes.get("encoding") == "gzip"
        yield f"{host}{part.attributes['path']}", _unpack(part.data) if packed else part.data


def live_blobs(evidence: Evidence) -> Iterator[tuple[str, bytes]]:
    """What PyTorch's debug server gave of each rank's recorder as (name, bytes), one at a time."""
    for host, part in evidence.all_parts("live-dump", cut=True):
        rank = part.number("rank")
        if rank is not None:
            packed = part.attributes.get("encoding") == "gzip"
            yield f"{host}/{_HANDLER}/rank_{rank}", _unpack(part.data) if packed else part.data


def _unpack(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        return unpacker.decompress(data, _MOST_BYTES)
    except zlib.error:
        return b""
