"""Turns the entries of a dump (plain containers from a hostile file) into checked operations."""

import marshal
import re
from array import array
from collections.abc import Iterable, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from oncall.flight_recorder.model import STATES, Ends, Frame, Op, Signature, Stack

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
_PROGRESS = ("pg_id", "process_group", "state", "retired", "frames")
_CALL = ("profiling_name", "is_p2p", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes")
_STATES = {state: state for state in STATES}
_own_fields = itemgetter(*_NUMBERS, *_PROGRESS)
_call_fields = itemgetter(*_CALL)
_ABSENT = dict.fromkeys((*_NUMBERS, *_PROGRESS, *_CALL))


class Label(NamedTuple):
    """How one dump's entries speak of a group: the process-local id as the file gives it, and the description."""

    own_id: Any
    desc: str | None


class _Call(NamedTuple):
    signature: Signature
    peers: Ends | None


class EntryReader:
    """Reads entries of many dumps; equal stacks, signatures and names of different ranks become one object."""

    def __init__(self) -> None:
        self._calls: dict[bytes, _Call] = {}
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
        except (KeyError, IndexError, TypeError, OverflowError):
            return self._read([_mended(entry) for entry in entries if _is_usable(entry)], device)

    def _read(self, entries: list[Any], device: bool) -> tuple[tuple[Op, ...], dict[str, Label]]:
        if not entries:
            return (), {}
        columns = zip(*map(_own_fields, entries), strict=True)
        # An array refuses what is no number of 64 bits; it also frees the memory blocks that the file's own numbers
        # would keep from being used again.
        records, seqs, p2p_seqs, times = (array("q", column) for column in islice(columns, len(_NUMBERS)))
        own_ids, groups, states, retired, frames = columns
        names = _names(groups)
        done = [state == "completed" for state in states]
        if not device:
            done = [over or flag is True for over, flag in zip(done, retired, strict=True)]
        ops = [
            Op(record, name, seq, p2p_seq, call.signature, over, time if time > 0 else None, stack, call.peers, told)
            for record, name, seq, p2p_seq, call, over, time, stack, told in zip(
                records,
                map(self._texts.setdefault, names, names),
                seqs,
                p2p_seqs,
                map(self._call, map(_call_fields, entries)),
                done,
                times,
                self._read_stacks(frames),
                [_STATES.get(state) if type(state) is str else None for state in states],
                strict=True,
            )
        ]
        return tuple(ops), self._labels(names, own_ids, groups)

    def _labels(self, names: Iterable[str], own_ids: Iterable[Any], groups: Iterable[Any]) -> dict[str, Label]:
        labels: dict[str, Label] = {}
        for name, own_id, group in zip(names, own_ids, groups, strict=True):
            if name not in labels:
                desc = group[1] if len(group) > 1 else None
                labels[name] = Label(own_id, self.share(desc[:MAX_TEXT]) if isinstance(desc, str) else None)
        return labels

    def _call(self, fields: tuple[Any, ...]) -> _Call:
        """What was called, remembered by value: the ranks of a job call the same."""
        # Version 4 of `marshal` writes a repeated object as a reference, so lists of lists cannot unfold to gigabytes.
        try:
            key = marshal.dumps(fields, 4)
        except ValueError:  # nested deeper than any shape
            return self._checked_call(fields)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = self._checked_call(fields)
        return call

    def _checked_call(self, fields: tuple[Any, ...]) -> _Call:
        name, is_p2p, sizes_in, types_in, sizes_out, types_out = fields
        text = name[:MAX_TEXT] if isinstance(name, str) else ""
        op, peers = _called(text, is_p2p is True)
        dtypes = _first_type(types_in) + _first_type(types_out)
        signature = Signature(self.share(op), dtypes, _elements(sizes_in), _elements(sizes_out))
        return _Call(self._signatures.setdefault(signature, signature), peers)

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


def _names(groups: Iterable[Any]) -> list[str]:
    """The names of process groups, given as (name, description); raises TypeError where one is no name."""
    names = [group[0] for group in groups]
    if not (
        set(map(type, groups)) <= {list, tuple} and set(map(type, names)) == {str} and max(map(len, names)) <= MAX_TEXT
    ):
        raise TypeError("no name of a process group")
    return names


def _is_usable(entry: object) -> bool:
    """Whether an entry is told from others by its number, and says which operation of which group it is of."""
    if not (
        isinstance(entry, dict) and _is_number(entry.get("record_id")) and _is_number(entry.get("collective_seq_id"))
    ):
        return False
    try:
        return bool(_names([entry.get("process_group")]))
    except (KeyError, IndexError, TypeError):
        return False


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


def _called(name: str, is_p2p: bool) -> tuple[str, Ends | None]:
    """The operation, and the ends of a send or receive; the entry that closes a batch of them has none."""
    op = _canonical(name)
    if not is_p2p or "coalesced" in op:
        return op, None
    return transfer_of(name) or (op.partition(" ")[0], (None, None))


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
