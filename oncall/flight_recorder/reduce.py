"""Cuts a Flight Recorder dump down to what the analysis reads; also runs alone on a node.

One file, standard library only, Python 3.8 or newer: `python3 reduce.py FILE...` prints one JSON line per dump. The
console's own loader passes every dump through `reduce_dump`, so the answer does not depend on where it ran.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import pickle
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

SCHEMA = "oncall.fr-reduced/1"
REDUCED_MARK = b'{"schema": "oncall.fr-reduced/1"'
GZIP_MARK = b"\x1f\x8b"
ZSTD_MARK = b"\x28\xb5\x2f\xfd"
MAX_FILE_BYTES = 1 << 30
"""A 20,000-entry ring is 3 MB, the rank list of a 16k world 100 kB: a gigabyte is no dump."""
MAX_ENTRIES = 2_000_000
HISTORY = 8
"""Newest entries kept per group: enough to see where a rank was and to compare it with its neighbours."""
HOST_HISTORY = 256
"""The same for backends that block the host (gloo): what would come next is read from the period of the past."""
TAIL = 512
"""Entries looked at for the newest ones of each group, where counters tell about groups not used since."""
TIMED = 128
"""Durations kept per group, for the question which rank waits least; the recorder has them with timing events only."""
_SAMPLED = 7
"""One in so many entries shows whether a group has durations: sends and receives in a batch have none."""
P2P_HISTORY = 64
"""The same for a group with sends and receives; of older ones the numbers are kept, as both ends have to be counted."""
P2P_OPEN = 512
"""Sends and receives looked through for the oldest that is not known to be over: all since that one are kept."""

DEVICE_BACKENDS = ("nccl", "nccl2", "ncclx", "rccl", "xccl", "hccl")
"""Backends whose `state` is read from device events."""
HOST_BACKENDS = ("gloo",)
"""Backends that only ever set `retired`."""

_SENT_KEYS = (
    "record_id",
    "pg_id",
    "process_group",
    "collective_seq_id",
    "p2p_seq_id",
    "profiling_name",
    "time_created_ns",
    "input_sizes",
    "input_dtypes",
    "output_sizes",
    "output_dtypes",
    "state",
    "retired",
    "is_p2p",
)
"""What the analysis reads of an entry, besides its stack."""

_HEADROOM_BYTES = 512 << 20
_STACK_BYTES = 512 << 20
_MOST_NESTED = _STACK_BYTES // 64
"""CPython 3.11 hashes a tuple of tuples by recursion without a limit, 55 bytes of stack a level (`tuplehash`)."""
_NESTING = b"\x85\x86\x87t\x90\x91"
"""The opcodes that put what can be hashed around a value: TUPLE1 to TUPLE3, TUPLE, ADDITEMS, FROZENSET."""
_OTHERS = bytes(sorted(set(range(256)).difference(_NESTING)))


class DumpError(Exception):
    """A file that is no usable dump; the text is the reason."""


class _Plain(pickle.Unpickler):
    """Containers, numbers and strings only: a pickle that names any global is refused before it is looked up."""

    def find_class(self, module: str, name: str) -> Any:
        raise DumpError(f"refused: the pickle asks for {module[:60]}.{name[:60]}; a dump holds plain data only")

    def persistent_load(self, pid: Any) -> Any:
        raise DumpError("refused: the pickle refers to an object outside the file")


class _Source:
    """A file of bytes for the unpickler that hands over all it has at the first `peek`.

    CPython 3.11 asks a file without `peek` for every opcode, which takes four times as long, and a buffered one for
    each block (`Modules/_pickle.c`, `_Unpickler_ReadFromFile`).
    """

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        self._at += len(part)
        return part

    def readline(self) -> bytes:
        end = self._data.find(b"\n", self._at) + 1
        return self.read((end or len(self._data)) - self._at)

    def peek(self, size: int) -> bytes:
        return self._data[self._at :]


@contextmanager
def bounded_memory(file_bytes: int) -> Iterator[None]:
    """Limit the address space while a file is loaded: a five-byte memo index can otherwise claim 32 GB.

    CPython 3.11 `Modules/_pickle.c` sizes its memo by the largest index a pickle names. Where the limit cannot be
    set (no `resource`, no procfs) the load runs without it.
    """
    try:
        import resource  # noqa: PLC0415  # absent outside Unix

        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    want = used + _HEADROOM_BYTES + 40 * file_bytes
    if soft != resource.RLIM_INFINITY:
        want = min(want, soft)
    resource.setrlimit(resource.RLIMIT_AS, (want, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep off the terminal what CPython 3.11 prints when a file claims a bytearray beyond all memory.

    `bytearray_dealloc` complains of the half-made object through `sys.excepthook`; the load fails with MemoryError.
    """
    hook, sys.excepthook = sys.excepthook, lambda *_: None
    try:
        yield
    finally:
        sys.excepthook = hook


def with_deep_stack(work: Callable[[], T]) -> T:
    """Call `work` on a thread whose stack fits the deepest nesting that `load_dump` lets pass.

    Where no such thread can be started (an address space limited by `ulimit -v`), on this one.
    """
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # raised where the work was asked for
            failed.append(error)

    before = threading.stack_size(_STACK_BYTES)
    try:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
    except RuntimeError:
        return work()
    finally:
        threading.stack_size(before)
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def load_dump(data: bytes) -> dict[str, Any]:
    """Read one dump, pickle or JSON; raises DumpError with the reason. Nothing in it is executed.

    To be called within `with_deep_stack`.
    """
    if not data:
        raise DumpError("empty file: the process died or was cut off before it wrote")
    if len(data) > MAX_FILE_BYTES:
        raise DumpError(f"{len(data)} bytes is larger than any dump")
    if data[:1] not in (b"{", b"\x80"):
        raise DumpError("not a Flight Recorder dump: neither JSON nor a pickle of protocol 2 or newer")
    if len(data) > _MOST_NESTED < len(data.translate(None, _OTHERS)):
        raise DumpError("refused: may be nested deeper than any dump is")
    try:
        with bounded_memory(len(data)), _quiet():
            raw = json.loads(data) if data[:1] == b"{" else _Plain(_Source(data)).load()
    except DumpError:
        raise
    except MemoryError:
        raise DumpError("refused: asks for far more memory than its size justifies") from None
    except EOFError:
        raise DumpError("cut off: the file ends in the middle") from None
    except pickle.UnpicklingError as error:
        cut = "truncated" in str(error) or "ran out of" in str(error)
        raise DumpError("cut off: the file ends in the middle" if cut else "not a Flight Recorder dump") from None
    # What damaged opcodes raise in CPython's unpickler is not limited to UnpicklingError.
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise DumpError(f"not a Flight Recorder dump ({type(error).__name__})") from None
    if not isinstance(raw, dict) or not ("entries" in raw or "pg_status" in raw or "pg_config" in raw):
        raise DumpError("not a Flight Recorder dump: no entries, pg_status or pg_config")
    return raw


def on_device(raw: dict[str, Any], entries: list[Any]) -> bool:
    """Whether the backend reports device states.

    The newest entry that names a backend tells. One that is not known has them if it uses them; without any name there
    is the library version, which gloo leaves empty.
    """
    for entry in reversed(entries):
        name = entry.get("profiling_name") if isinstance(entry, dict) else None
        backend, colon, _ = name.partition(":") if isinstance(name, str) else ("", "", "")
        if colon:
            return backend in DEVICE_BACKENDS or (backend not in HOST_BACKENDS and _tells_states(entries))
    return bool(raw.get("comm_lib_version", raw.get("nccl_version")))


def _tells_states(entries: list[Any]) -> bool:
    return any(isinstance(entry, dict) and entry.get("state") in ("started", "completed") for entry in entries)


def _fill(entries: list[Any]) -> list[dict[str, Any]]:
    """The entries that can be read at all, with the keys that only some writers leave out."""
    good = []
    for e in entries:
        group = e.get("process_group") if isinstance(e, dict) else None
        if isinstance(group, (list, tuple)) and group and isinstance(group[0], str) and type(e.get("record_id")) is int:
            seq, own_id = e.get("collective_seq_id"), e.get("pg_id")
            fixed = {
                "collective_seq_id": seq if type(seq) is int else 0,
                "p2p_seq_id": e["p2p_seq_id"] if type(e.get("p2p_seq_id")) is int else 0,
                "profiling_name": e["profiling_name"] if isinstance(e.get("profiling_name"), str) else "",
                "pg_id": own_id if isinstance(own_id, (int, str)) else group[0],
            }
            good.append({"is_p2p": False, "retired": False, "state": None, **e, **fixed})
    return good


def _select(
    entries: list[dict[str, Any]], device: bool, counted: bool
) -> tuple[list[dict[str, Any]], dict[Any, list[dict[str, Any]]]]:
    """What the analysis reads, in record order, and the newest entries by group.

    Counters (`counted`) stand for groups that were not used lately, so the tail of the ring is enough then; with sends
    and receives all of it is looked at, as what is kept has to reach back to a collective that both ends share.
    """
    tail = entries[-TAIL:]
    with_p2p = {e["pg_id"] for e in tail if e["is_p2p"]}
    groups: dict[Any, list[dict[str, Any]]] = {}
    for e in tail if device and counted and not with_p2p else entries:
        key = e["pg_id"]
        if key in groups:
            groups[key].append(e)
        else:
            groups[key] = [e]
    if device:
        kept = [e for e in entries if e["state"] != "completed" and not e["is_p2p"]]
    else:
        kept = [e for e in entries if not e["retired"] and e["state"] != "completed" and not e["is_p2p"]]
    for key, own in groups.items():
        kept += own[-(_p2p_history(own, device) if key in with_p2p else HISTORY if device else HOST_HISTORY) :]
    by_record = {e["record_id"]: e for e in kept}
    return [by_record[i] for i in sorted(by_record)], groups


def _p2p_history(own: list[dict[str, Any]], device: bool) -> int:
    """How many of the newest entries of a group with sends and receives stay: all since the first that may be open.

    In a batch only the entry that closes it ever shows a state; all of a batch have one `p2p_seq_id`.
    """
    newest = own[-P2P_OPEN:]
    if not device:
        return len(newest)
    over = {
        e["p2p_seq_id"]
        for e in newest
        if e["state"] == "completed" and (e["is_p2p"] or e["profiling_name"].endswith(":coalesced"))
    }
    first_open = next((i for i, e in enumerate(newest) if e["p2p_seq_id"] not in over), len(newest))
    return max(len(newest) - first_open, P2P_HISTORY)


def _is_group_id(key: Any) -> bool:
    """Whether it is a group id as recorders write them; a number of thousands of digits cannot even be printed."""
    return isinstance(key, str) or (isinstance(key, int) and abs(key) < 1 << 63)


def _transfers(groups: dict[Any, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """All sends and receives in the ring, by group id."""
    by_group = {str(key): [e for e in own if e["is_p2p"]] for key, own in groups.items() if _is_group_id(key)}
    return {key: own for key, own in by_group.items() if own}


def _channels(transfers: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, list[Any]]]:
    """The record numbers of sends and receives, by group id and by name (`nccl:send 0->1`)."""
    channels: dict[str, dict[str, list[Any]]] = {}
    for key, own in transfers.items():
        for e in own:
            name = e.get("profiling_name")
            if isinstance(name, str):
                channels.setdefault(key, {}).setdefault(name, []).append(e["record_id"])
    return channels


def _launches(transfers: dict[str, list[dict[str, Any]]], kept: list[dict[str, Any]]) -> dict[str, list[list[Any]]]:
    """The record numbers and the p2p sequence numbers of sends and receives that are not kept, by group id."""
    stay = {e["record_id"] for e in kept} if transfers else set()
    left = {key: [e for e in own if e["record_id"] not in stay] for key, own in transfers.items()}
    return {
        key: [[e["record_id"] for e in own], [e.get("p2p_seq_id") for e in own]] for key, own in left.items() if own
    }


def _durations(groups: dict[Any, list[dict[str, Any]]]) -> dict[str, list[list[Any]]]:
    timed = {}
    for key, own in groups.items():
        if _is_group_id(key) and any("duration_ms" in e for e in own[-TIMED::_SAMPLED]):
            rows = [e for e in own[-TIMED:] if "duration_ms" in e and not e["is_p2p"]]
            timed[str(key)] = [[e["collective_seq_id"], e["duration_ms"]] for e in rows]
    return timed


def reduce_dump(raw: dict[str, Any], whole: bool = False) -> dict[str, Any]:
    """Keep the counters, the group tables and the entries that the analysis reads; count the rest.

    All operations that are not over stay, and the newest entries of each group. `total` is the number of entries the
    ring held, `oldest` the lowest record number and `oldest_ns` when that was created, `durations` pairs of sequence
    number and milliseconds by group id, `channels` the record numbers of all sends and receives, `launches` the record
    and p2p sequence numbers of those that do not stay, `finished` whether any entry was complete (a dump of active
    operations only has none). With `whole` every entry stays, for a listing.
    """
    entries = raw.get("entries")
    if not isinstance(entries, list):
        entries = []
    if len(entries) > MAX_ENTRIES:
        raise DumpError(f"{len(entries)} entries is more than any ring holds")
    device = on_device(raw, entries)
    counted = isinstance(raw.get("pg_status"), dict) and len(raw["pg_status"]) > 0
    try:
        kept, groups = _select(entries, device, counted)
        oldest = entries[0]["record_id"] if entries else None
    except (KeyError, TypeError, AttributeError):
        usable = _fill(entries)
        kept, groups = _select(usable, device, counted)
        oldest = usable[0]["record_id"] if usable else None
        entries = usable
    transfers = _transfers(groups)
    return {
        "version": raw.get("version"),
        "comm_lib_version": raw.get("comm_lib_version", raw.get("nccl_version")),
        "pg_config": raw.get("pg_config"),
        "pg_status": raw.get("pg_status"),
        "entries": entries if whole else kept,
        "total": len(entries),
        "oldest": oldest,
        "oldest_ns": entries[0].get("time_created_ns") if entries else None,
        "durations": _durations(groups),
        "channels": _channels(transfers),
        "launches": _launches(transfers, kept),
        "device": device,
        "finished": any(e.get("state") == "completed" or (not device and e.get("retired")) for e in entries),
    }


def unpack_gzip(data: bytes) -> bytes:
    """Unpack all members of a gzip file, at most MAX_FILE_BYTES; raises DumpError when it is damaged or cut off."""
    plain = []
    left = MAX_FILE_BYTES
    while data:
        stream = zlib.decompressobj(wbits=31)
        try:
            plain.append(stream.decompress(data, left))
        except zlib.error as error:
            raise DumpError(f"cannot be unpacked: {error}") from None
        left -= len(plain[-1])
        if not stream.eof:
            raise DumpError("cut off: the gzip stream does not end")
        data = stream.unused_data
    return b"".join(plain)


def encode_row(name: str, reduced: dict[str, Any]) -> bytes:
    """One reduced dump as a line of JSON; each stack is written once and named by its place in `stacks`."""
    stacks: dict[str, int] = {}
    entries = []
    for entry in reduced["entries"]:
        row = {key: entry[key] for key in _SENT_KEYS if key in entry}
        if entry.get("frames"):
            row["stack"] = stacks.setdefault(json.dumps(entry["frames"]), len(stacks))
        entries.append(row)
    stacks_once = [json.loads(text) for text in stacks]
    return _row_of({"name": name, **reduced, "entries": entries, "stacks": stacks_once})


def decode_row(line: bytes) -> tuple[str, dict[str, Any]]:
    """What a line of the reducer says of a file, with its name; raises DumpError when the line is damaged."""
    try:
        row = json.loads(line)
        stacks = row.get("stacks", [])
        for entry in row.get("entries", []):
            if "stack" in entry:
                entry["frames"] = stacks[entry.pop("stack")]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise DumpError(f"not a reduced dump ({type(error).__name__})") from None
    return str(row.get("name", "")), row


def main(argv: list[str]) -> int:
    """Reduce the named files to standard output, one gzip member each.

    One without a dump is named with its reason, one in a packing unknown here is handed over whole.
    """
    for path in argv:
        sys.stdout.buffer.write(gzip.compress(with_deep_stack(partial(_reduced_row, path))))
        sys.stdout.buffer.flush()
    return 0


def _reduced_row(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            data = stream.read(min(os.fstat(stream.fileno()).st_size, MAX_FILE_BYTES) + 1)
        if data.startswith(GZIP_MARK):
            data = unpack_gzip(data)
        if data.startswith(ZSTD_MARK):  # no standard library before that of Python 3.14 unpacks it
            return _row_of({"name": path, "whole": base64.b64encode(data).decode()})
        return encode_row(path, reduce_dump(load_dump(data)))
    # TypeError to RecursionError: a pickle may hold what JSON cannot.
    except (DumpError, OSError, MemoryError, TypeError, ValueError, RecursionError) as error:
        return _row_of({"name": path, "refused": str(error) or type(error).__name__})


def _row_of(fields: dict[str, Any]) -> bytes:
    return json.dumps({"schema": SCHEMA, **fields}).encode() + b"\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
