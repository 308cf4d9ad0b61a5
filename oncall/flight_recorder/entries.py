"""Turns the entries of a dump (plain containers from a hostile file) into checked operations."""

import marshal
import re
from array import array
from collections.abc import Iterable, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from oncall.flight_recorder.model import Frame, Op, Signature, Stack

MAX_FRAMES = 128
MAX_TEXT = 512
MAX_SHAPES = 4096
MAX_DIMENSIONS = 16
MAX_EXTENT = 1 << 62
MAX_NUMBER = 1 << 63

_P2P_NAME = re.compile(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})")

_OP_ALIASES = {
    # The same operation under the names of c10d's binding and of the backend (torch 2.9 to 2.13).
    "_allgather_base": "all_gather_into_tensor",
    "_all_gather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
}

_NUMBERS = ("record_id", "collective_seq_id", "p2p_seq_id", "time_created_ns")
_PROGRESS = ("pg_id", "state", "retired", "frames")
_CALL = (
    "process_group",
    "profiling_name",
    "is_p2p",
    "input_sizes",
    "input_dtypes",
    "output_sizes",
    "output_dtypes",
)
_own_fields = itemgetter(*_NUMBERS, *_PROGRESS)
_call_fields = itemgetter(*_CALL)
_ABSENT = dict.fromkeys((*_NUMBERS, *_PROGRESS, *_CALL))


class Label(NamedTuple):
    """How one dump's entries speak of a group: the process-local id as the file gives it, and the description."""

    own_id: Any
    desc: str | None


class _Call(NamedTuple):
    group: str
    desc: str | None
    signature: Signature
    peers: tuple[int, int] | None


class EntryReader:
    """Reads entries of many dumps; equal stacks, signatures and names of different ranks become one object."""

    def __init__(self) -> None:
        self._calls: dict[bytes, _Call | None] = {}
        self._signatures: dict[Signature, Signature] = {}
        self._stacks: dict[bytes, Stack] = {}
        self._distinct_stacks: dict[Stack, Stack] = {}
        self._texts: dict[str, str] = {}

    def share(self, text: str) -> str:
        """One object for equal texts of all files."""
        return self._texts.setdefault(text, text)

    def read(self, entries: list[Any], device: bool) -> tuple[tuple[Op, ...], dict[str, Label]]:
        """The operations in the order of the file, and each group's label by name; what makes no sense is left out.

        `device` says that `state` is told by device events, so that `retired` means nothing.
        """
        try:
            return self._read(entries, device)
        except (KeyError, TypeError, OverflowError):
            return self._read([_mended(entry) for entry in entries if _is_numbered(entry)], device)

    def _read(self, entries: list[Any], device: bool) -> tuple[tuple[Op, ...], dict[str, Label]]:
        if not entries:
            return (), {}
        columns = zip(*map(_own_fields, entries), strict=True)
        # An array refuses what is no number of 64 bits; it also frees the memory blocks that the file's own numbers
        # would keep from being used again.
        records, seqs, p2p_seqs, times = (array("q", column) for column in islice(columns, len(_NUMBERS)))
        own_ids, states, retired, frames = columns
        calls = [self._call(fields) for fields in map(_call_fields, entries)]
        done = [state == "completed" for state in states]
        if not device:
            done = [over or flag is True for over, flag in zip(done, retired, strict=True)]
        rows = zip(records, seqs, p2p_seqs, times, calls, done, self._read_stacks(frames), strict=True)
        ops = [
            Op(record, call.group, seq, p2p_seq, call.signature, over, time if time > 0 else None, stack, call.peers)
            for record, seq, p2p_seq, time, call, over, stack in rows
            if call is not None
        ]
        return tuple(ops), _labels(calls, own_ids)

    def _call(self, fields: tuple[Any, ...]) -> _Call | None:
        """What was called in which group, remembered by value: the ranks of a job call the same; None: nonsense."""
        # Version 4 of `marshal` writes a repeated object as a reference, so lists of lists cannot unfold to gigabytes.
        try:
            key = marshal.dumps(fields, 4)
        except ValueError:  # nested deeper than any shape
            return None
        if key in self._calls:
            return self._calls[key]
        call = self._calls[key] = self._checked_call(fields)
        return call

    def _checked_call(self, fields: tuple[Any, ...]) -> _Call | None:
        group, name, is_p2p, sizes_in, types_in, sizes_out, types_out = fields
        if not (isinstance(group, (list, tuple)) and group and isinstance(group[0], str) and len(group[0]) <= MAX_TEXT):
            return None
        desc = group[1][:MAX_TEXT] if len(group) > 1 and isinstance(group[1], str) else None
        text = name[:MAX_TEXT] if isinstance(name, str) else ""
        ends = transfer_of(text) if is_p2p is True else None
        op, peers = ends or (_canonical(text), None)
        dtypes = _first_type(types_in) + _first_type(types_out)
        signature = Signature(self.share(op), dtypes, _elements(sizes_in), _elements(sizes_out))
        return _Call(
            self.share(group[0]),
            None if desc is None else self.share(desc),
            self._signatures.setdefault(signature, signature),
            peers,
        )

    def _read_stacks(self, column: Iterable[Any]) -> list[Stack]:
        # The unpickler gives one object for a frame that is written once, so identity tells equal stacks of one file.
        seen: dict[tuple[int, ...], Stack] = {}
        stacks = []
        for frames in column:
            rows = frames[:MAX_FRAMES]
            identity = tuple(map(id, rows))
            stack = seen.get(identity)
            if stack is None:
                stack = seen[identity] = self._shared_stack(rows)
            stacks.append(stack)
        return stacks

    def _shared_stack(self, rows: list[Any]) -> Stack:
        try:
            key = marshal.dumps(rows, 4)
        except ValueError:  # nested deeper than any frame
            return ()
        known = self._stacks.get(key)
        if known is not None:
            return known
        stack = tuple(_frame(row) for row in rows if isinstance(row, dict))
        shared = self._stacks[key] = self._distinct_stacks.setdefault(stack, stack)
        return shared


def _labels(calls: Iterable[_Call | None], own_ids: Iterable[Any]) -> dict[str, Label]:
    labels: dict[str, Label] = {}
    for call, own_id in zip(calls, own_ids, strict=True):
        if call is not None and call.group not in labels:
            labels[call.group] = Label(own_id, call.desc)
    return labels


def _is_numbered(entry: object) -> bool:
    return isinstance(entry, dict) and _is_number(entry.get("record_id")) and _is_number(entry.get("collective_seq_id"))


def _mended(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with the keys that some recorders leave out, and nothing in place of what makes no sense."""
    p2p_seq, created, frames = entry.get("p2p_seq_id"), entry.get("time_created_ns"), entry.get("frames")
    return {
        **_ABSENT,
        **entry,
        "p2p_seq_id": p2p_seq if _is_number(p2p_seq) else 0,
        "time_created_ns": created if _is_number(created) else 0,
        "frames": frames if isinstance(frames, (list, tuple)) else (),
    }


def _is_number(value: object) -> bool:
    """Whether it is a number such as the recorder counts with: 64 bits, and no bool."""
    return type(value) is int and -MAX_NUMBER < value < MAX_NUMBER


def transfer_of(name: str) -> tuple[str, tuple[int, int]] | None:
    """`send` or `recv` with its group-local (source, destination), of a profiling name; None for other operations."""
    match = _P2P_NAME.search(name)
    if match is None:
        return None
    here, there = int(match[2]), int(match[4])
    return match[1], (here, there) if match[3] == "->" else (there, here)


def _canonical(name: str) -> str:
    op = name.rpartition(":")[2] or "unnamed"
    return _OP_ALIASES.get(op, op)


def _frame(row: Mapping[str, Any]) -> Frame:
    name, file, line = row.get("name"), row.get("filename"), row.get("line")
    return Frame(
        name[:MAX_TEXT] if isinstance(name, str) and name else "?",
        file[:MAX_TEXT] if isinstance(file, str) and file else "?",
        line if type(line) is int else 0,
    )


def _first_type(names: object) -> tuple[str, ...]:
    if isinstance(names, (list, tuple)) and names and isinstance(names[0], str):
        return (names[0][:32],)
    return ()


def _elements(sizes: object) -> int | None:
    """Element count over a list of shapes; None when the recorder gives no shapes at all."""
    if not isinstance(sizes, (list, tuple)) or not sizes:
        return None
    total = 0
    for shape in sizes[:MAX_SHAPES]:
        elements = 1
        for extent in shape[:MAX_DIMENSIONS] if isinstance(shape, (list, tuple)) else (0,):
            elements *= extent if type(extent) is int and 0 <= extent < MAX_EXTENT else 0
        total += elements
    return total
