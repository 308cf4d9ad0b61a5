"""Turns a reduced dump (plain containers from a hostile file) into a checked `RankDump`."""

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from oncall.flight_recorder.model import Counters, Frame, Group, Op, RankDump, Signature, Stack

MAX_FRAMES = 128
MAX_TEXT = 512
MAX_SHAPES = 4096
MAX_DIMENSIONS = 16
MAX_EXTENT = 1 << 62
MAX_WORLD = 1 << 20

_P2P_NAME = re.compile(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})")
_NUMBER = re.compile(r"\d{1,7}")

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


class Digester:
    """Builds RankDumps; equal stacks, signatures and rank lists of different ranks become one object."""

    def __init__(self) -> None:
        self._stacks: dict[Stack, Stack] = {}
        self._signatures: dict[Signature, Signature] = {}
        self._texts: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._groups: dict[tuple[str, str, tuple[int, ...]], Group] = {}
        self._members: dict[str, tuple[int, ...]] = {}

    def digest(self, reduced: Mapping[str, Any], rank: int, source: str, host: str | None) -> RankDump:
        """Check and convert one dump; entries that make no sense are left out, never fatal."""
        device = reduced.get("device") is True
        frames: dict[tuple[int, ...], Stack] = {}
        entries = [e for e in _list(reduced.get("entries")) if _is_entry(e)]
        ops = tuple(self._op(e, device, frames) for e in entries)
        config = self._config(reduced.get("pg_config"))
        names = {
            str(e["pg_id"]): self._share(e["process_group"][0])
            for e in entries
            if isinstance(e.get("pg_id"), str) or _is_int(e.get("pg_id"))
        }
        status = _mapping(reduced.get("pg_status"))
        by_id = _names_by_id(names, config, status)
        total = _int(reduced.get("total"))
        return RankDump(
            rank=rank,
            source=source,
            host=host,
            version=self._share(_text(reduced.get("version")) or "") or None,
            device=device,
            ops=ops,
            config=config,
            descs={
                self._share(e["process_group"][0]): self._share(_text(e["process_group"][1]) or "")
                for e in entries
                if len(e["process_group"]) > 1
            },
            counters={by_id[key]: _counters(value) for key, value in status.items() if key in by_id},
            durations={
                by_id[key]: _timed(rows) for key, rows in _mapping(reduced.get("durations")).items() if key in by_id
            },
            total=len(ops) if total is None else total,
            wrapped=reduced.get("oldest") not in (0, None),
            only_active=bool(entries) and reduced.get("finished") is False,
        )

    def _share(self, text: str) -> str:
        """One object for equal texts of all files."""
        return self._texts.setdefault(text, text)

    def _op(self, e: Mapping[str, Any], device: bool, frames: dict[tuple[int, ...], Stack]) -> Op:
        get = e.get
        name = get("profiling_name")
        if not isinstance(name, str):
            name = ""
        op = self._names.get(name)
        if op is None:
            op = self._names[name] = _canonical(name[:MAX_TEXT])
        peers = None
        if get("is_p2p") is True:
            match = _P2P_NAME.search(name)
            if match:
                here, there = int(match[2]), int(match[4])
                op, peers = match[1], (here, there) if match[3] == "->" else (there, here)
        signature = Signature(
            op,
            _first_type(get("input_dtypes")) + _first_type(get("output_dtypes")),
            _elements(get("input_sizes")),
            _elements(get("output_sizes")),
        )
        p2p_seq, created = get("p2p_seq_id"), get("time_created_ns")
        # Sums are copies: a number of the file's own would keep the memory block it lies in from being used again.
        return Op(
            e["record_id"] + 0,
            self._share(e["process_group"][0]),
            e["collective_seq_id"] + 0,
            p2p_seq + 0 if type(p2p_seq) is int else 0,
            self._signatures.setdefault(signature, signature),
            get("state") == "completed" or (not device and get("retired") is True),
            created + 0 if type(created) is int and created > 0 else None,
            self._stack(get("frames"), frames),
            peers,
        )

    def _stack(self, raw: object, seen: dict[tuple[int, ...], Stack]) -> Stack:
        if not isinstance(raw, (list, tuple)):
            return ()
        rows = raw[:MAX_FRAMES]
        # The unpickler gives one object for a frame that is written once, so identity tells equal stacks of one file.
        key = tuple(map(id, rows))
        stack = seen.get(key)
        if stack is None:
            stack = tuple(_frame(row) for row in rows if isinstance(row, dict))
            stack = seen[key] = self._stacks.setdefault(stack, stack)
        return stack

    def _config(self, raw: object) -> dict[str, Group]:
        groups = {}
        for key, value in _mapping(raw).items():
            if isinstance(value, dict):
                row = (key, _text(value.get("desc")) or "", self._ranks(value.get("ranks")))
                group = self._groups.get(row)
                group = group if group is not None else self._groups.setdefault(row, Group(*row))
                groups[group.name] = group
        return groups

    def _ranks(self, raw: object) -> tuple[int, ...]:
        text = raw if isinstance(raw, str) else ",".join(str(r) for r in _list(raw)[:MAX_WORLD] if _is_int(r))
        known = self._members.get(text)
        if known is None:
            numbers = (int(n) for n in _NUMBER.findall(text))
            known = self._members[text] = tuple(dict.fromkeys(n for n in numbers if n < MAX_WORLD))
        return known


def _names_by_id(names: Mapping[str, str], config: Mapping[str, Group], status: Mapping[str, Any]) -> dict[str, str]:
    """Group name by process-local group id.

    `pg_status` is keyed by an id that only entries tie to a name. For groups without an entry both count upwards as
    groups are made, so numeric names in order belong to ids in order, if there are as many.
    """
    known = dict(names)
    if len(config) == len(status) and all(n.isdecimal() for n in config) and all(i.isdecimal() for i in status):
        ordered = zip(sorted(status, key=int), sorted(config, key=int), strict=True)
        for group_id, name in ordered:
            known.setdefault(group_id, name)
    return known


def _counters(raw: object) -> Counters:
    values = _mapping(raw)

    def count(key: str) -> int | None:
        value = values.get(key)
        if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 20:
            value = int(value)
        return value if _is_int(value) and value >= 0 else None

    return Counters(count("last_enqueued_collective"), count("last_completed_collective"))


def _timed(rows: object) -> dict[int, float]:
    pairs = [row for row in _list(rows) if isinstance(row, (list, tuple)) and len(row) == 2 and _is_int(row[0])]
    return {seq: ms for seq, raw in pairs if (ms := _number(raw)) is not None}


def _canonical(name: str) -> str:
    op = name.rpartition(":")[2] or "unnamed"
    return _OP_ALIASES.get(op, op)


def _frame(row: Mapping[str, Any]) -> Frame:
    name, file, line = row.get("name"), row.get("filename"), row.get("line")
    if type(name) is str and type(file) is str and type(line) is int and len(name) < MAX_TEXT and len(file) < MAX_TEXT:
        return Frame(name, file, line)
    return Frame(_text(name) or "?", _text(file) or "?", _int(line) or 0)


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


def _is_entry(e: object) -> bool:
    if not isinstance(e, dict):
        return False
    group = e.get("process_group")
    return (
        type(e.get("record_id")) is int
        and type(e.get("collective_seq_id")) is int
        and isinstance(group, (list, tuple))
        and len(group) > 0
        and isinstance(group[0], str)
        and len(group[0]) <= MAX_TEXT
    )


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 64


def _int(value: object) -> int | None:
    return value if _is_int(value) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e12 else None


def _text(value: object) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) else None


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _mapping(value: object) -> dict[str, Any]:
    """A table by text keys; keys of other types than text and number are no key of any writer."""
    if not isinstance(value, dict):
        return {}
    return {str(k)[:MAX_TEXT]: v for k, v in value.items() if isinstance(k, str) or _is_int(k)}
