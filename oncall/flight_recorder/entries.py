"""Turns the entries of a dump (plain containers from a hostile file) into checked operations."""

import marshal
import re
from collections.abc import Mapping
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

_PLACE = (
    "record_id",
    "pg_id",
    "collective_seq_id",
    "p2p_seq_id",
    "state",
    "retired",
    "time_created_ns",
    "input_sizes",
    "output_sizes",
    "frames",
)
_CALL = ("process_group", "profiling_name", "is_p2p", "input_dtypes", "output_dtypes")
_fields = itemgetter(*_PLACE, *_CALL)
_ABSENT = dict.fromkeys((*_PLACE, *_CALL))
_WITHOUT_REFERENCES = 2
"""The version of `marshal` whose bytes depend on values alone, not on which objects happen to be the same."""


class Label(NamedTuple):
    """How one dump's entries speak of a group: the process-local id as the file gives it, and the description."""

    own_id: Any
    desc: str | None


class _Call(NamedTuple):
    group: str
    desc: str | None
    op: str
    dtypes: tuple[str, ...]
    peers: tuple[int, int] | None


class EntryReader:
    """Reads entries of many dumps; equal stacks, signatures and names of different ranks become one object."""

    def __init__(self) -> None:
        self._calls: dict[bytes, _Call | None] = {}
        self._signatures: dict[tuple[str, tuple[str, ...], int | None, int | None], Signature] = {}
        self._stacks: dict[bytes, Stack] = {}
        self._texts: dict[str, str] = {}

    def share(self, text: str) -> str:
        """One object for equal texts of all files."""
        return self._texts.setdefault(text, text)

    def read(self, entries: list[Any], device: bool) -> tuple[tuple[Op, ...], dict[str, Label]]:
        """The operations in the order of the file, and each group's label by name; what makes no sense is left out.

        `device` says that `state` is told by device events, so that `retired` means nothing.
        """
        ops: list[Op] = []
        labels: dict[str, Label] = {}
        stacks: dict[tuple[int, ...], Stack] = {}
        for entry in entries:
            if type(entry) is not dict:
                continue
            try:
                fields = _fields(entry)
            except KeyError:
                fields = _fields({**_ABSENT, **entry})
            record, own_id, seq, p2p_seq, state, retired, created, sizes_in, sizes_out, frames = fields[:10]
            call = self._call(fields[10:])
            if call is None or not (_is_number(record) and _is_number(seq)):
                continue
            if call.group not in labels:
                labels[call.group] = Label(own_id, call.desc)
            ops.append(
                # Sums are copies: a number of the file's own would keep its memory block from being used again.
                Op(
                    record + 0,
                    call.group,
                    seq + 0,
                    p2p_seq + 0 if _is_number(p2p_seq) else 0,
                    self._signature(call, _elements(sizes_in), _elements(sizes_out)),
                    state == "completed" or (not device and retired is True),
                    created + 0 if _is_number(created) and created > 0 else None,
                    self._stack(frames, stacks),
                    call.peers,
                )
            )
        return tuple(ops), labels

    def _call(self, fields: tuple[Any, ...]) -> _Call | None:
        """What was called in which group, remembered by value: the ranks of a job call the same; None: nonsense."""
        try:
            key = marshal.dumps(fields, _WITHOUT_REFERENCES)
        except ValueError:  # nested deeper than any shape
            return None
        if key in self._calls:
            return self._calls[key]
        call = self._calls[key] = self._checked_call(fields)
        return call

    def _checked_call(self, fields: tuple[Any, ...]) -> _Call | None:
        group, name, is_p2p, types_in, types_out = fields
        if not (isinstance(group, (list, tuple)) and group and isinstance(group[0], str) and len(group[0]) <= MAX_TEXT):
            return None
        desc = group[1][:MAX_TEXT] if len(group) > 1 and isinstance(group[1], str) else None
        text = name[:MAX_TEXT] if isinstance(name, str) else ""
        ends = transfer_of(text) if is_p2p is True else None
        op, peers = ends or (_canonical(text), None)
        dtypes = _first_type(types_in) + _first_type(types_out)
        share = self.share
        return _Call(share(group[0]), None if desc is None else share(desc), share(op), dtypes, peers)

    def _signature(self, call: _Call, sent: int | None, received: int | None) -> Signature:
        key = (call.op, call.dtypes, sent, received)
        signature = self._signatures.get(key)
        if signature is None:
            signature = self._signatures[key] = Signature(*key)
        return signature

    def _stack(self, raw: object, seen: dict[tuple[int, ...], Stack]) -> Stack:
        if not isinstance(raw, (list, tuple)) or not raw:
            return ()
        rows = raw[:MAX_FRAMES]
        # The unpickler gives one object for a frame that is written once, so identity tells equal stacks of one file.
        identity = tuple(map(id, rows))
        stack = seen.get(identity)
        if stack is None:
            stack = seen[identity] = self._shared_stack(rows)
        return stack

    def _shared_stack(self, rows: list[Any] | tuple[Any, ...]) -> Stack:
        try:
            key = marshal.dumps(rows, _WITHOUT_REFERENCES)
        except ValueError:  # nested deeper than any frame
            return ()
        stack = self._stacks.get(key)
        if stack is None:
            stack = self._stacks[key] = tuple(_frame(row) for row in rows if isinstance(row, dict))
        return stack


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
