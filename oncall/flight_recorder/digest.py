"""Turns a reduced dump (plain containers from a hostile file) into a checked `RankDump`."""

import re
from collections.abc import Mapping
from math import prod
from typing import Any, TypeGuard

from oncall.flight_recorder.model import Counters, Frame, Group, Op, RankDump, Signature, Stack

MAX_FRAMES = 128
MAX_TEXT = 512
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
        self._members: dict[str, tuple[int, ...]] = {}

    def digest(self, reduced: Mapping[str, Any], rank: int, source: str, host: str | None) -> RankDump:
        """Check and convert one dump; entries that make no sense are left out, never fatal."""
        entries = [e for e in _list(reduced.get("entries")) if _is_entry(e)]
        frames: dict[tuple[int, ...], Stack] = {}
        device = reduced.get("device") is True
        ops = tuple(self._op(e, device, frames) for e in entries)
        config = self._config(reduced.get("pg_config"))
        names = {str(e.get("pg_id")): str(e["process_group"][0]) for e in entries if "pg_id" in e}
        status = _mapping(reduced.get("pg_status"))
        by_id = _names_by_id(names, config, status)
        total = _int(reduced.get("total"))
        return RankDump(
            rank=rank,
            source=source,
            host=host,
            version=_text(reduced.get("version")),
            device=device,
            ops=ops,
            config=config,
            descs={
                str(e["process_group"][0]): _text(e["process_group"][1]) or ""
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

    def _op(self, e: Mapping[str, Any], device: bool, frames: dict[tuple[int, ...], Stack]) -> Op:
        name = _text(e.get("profiling_name")) or ""
        match = _P2P_NAME.search(name) if e.get("is_p2p") is True else None
        peers = None
        if match:
            here, there = int(match[2]), int(match[4])
            peers = (here, there) if match[3] == "->" else (there, here)
        op = match[1] if match else _canonical(name)
        dtypes = tuple(str(d)[:32] for d in (*_list(e.get("input_dtypes"))[:1], *_list(e.get("output_dtypes"))[:1]))
        signature = Signature(op, dtypes, _elements(e.get("input_sizes")), _elements(e.get("output_sizes")))
        return Op(
            record=e["record_id"],
            group=str(e["process_group"][0])[:MAX_TEXT],
            seq=e["collective_seq_id"],
            p2p_seq=_int(e.get("p2p_seq_id")) or 0,
            signature=self._signatures.setdefault(signature, signature),
            done=e.get("state") == "completed" or (not device and e.get("retired") is True),
            created_ns=_int(e.get("time_created_ns")) or None,
            duration_ms=_number(e.get("duration_ms")),
            completed_ns=_int(e.get("time_discovered_completed_ns")) or None,
            stack=self._stack(e.get("frames"), frames),
            peers=peers,
        )

    def _stack(self, raw: object, seen: dict[tuple[int, ...], Stack]) -> Stack:
        rows = _list(raw)[:MAX_FRAMES]
        key = tuple(map(id, rows))
        stack = seen.get(key)
        if stack is None:
            stack = tuple(
                Frame(_text(row.get("name")) or "?", _text(row.get("filename")) or "?", _int(row.get("line")) or 0)
                for row in rows
                if isinstance(row, dict)
            )
            stack = seen[key] = self._stacks.setdefault(stack, stack)
        return stack

    def _config(self, raw: object) -> dict[str, Group]:
        groups = {}
        for key, value in _mapping(raw).items():
            if isinstance(value, dict):
                groups[key] = Group(key, _text(value.get("desc")) or "", self._ranks(value.get("ranks")))
        return groups

    def _ranks(self, raw: object) -> tuple[int, ...]:
        text = raw if isinstance(raw, str) else ",".join(str(r)[:8] for r in _list(raw)[:MAX_WORLD])
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


def _elements(sizes: object) -> int | None:
    """Element count over a list of shapes; None when the recorder gives no shapes at all."""
    shapes = _list(sizes)[:4096]
    if not shapes:
        return None
    return sum(prod(n for n in shape[:16] if _is_int(n)) for shape in shapes if isinstance(shape, (list, tuple)))


def _is_entry(e: object) -> bool:
    return (
        isinstance(e, dict)
        and _is_int(e.get("record_id"))
        and _is_int(e.get("collective_seq_id"))
        and isinstance(e.get("process_group"), (list, tuple))
        and len(e["process_group"]) > 0
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
    return {str(k)[:MAX_TEXT]: v for k, v in value.items()} if isinstance(value, dict) else {}
