"""Turns a reduced dump (plain containers from a hostile file) into a checked `RankDump`."""

import re
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from oncall.flight_recorder.entries import MAX_TEXT, EntryReader, transfer_of
from oncall.flight_recorder.model import Channel, Counters, Group, Op, RankDump

MAX_WORLD = 1 << 20

_NUMBER = re.compile(r"\d{1,7}")
_RANK_LIST = re.compile(r"[\[\]\s\d,]*")


class Digester:
    """Builds RankDumps; equal stacks, signatures and rank lists of different ranks become one object."""

    def __init__(self) -> None:
        self._reader = EntryReader()
        self._groups: dict[tuple[str, str, str], Group] = {}
        self._members: dict[str, tuple[int, ...]] = {}

    def digest(self, reduced: Mapping[str, Any], rank: int, source: str, host: str | None) -> RankDump:
        """Check and convert one dump; entries that make no sense are left out, never fatal."""
        device = reduced.get("device") is True
        share = self._reader.share
        ops, labels = self._reader.read(_list(reduced.get("entries")), device)
        config = self._config(reduced.get("pg_config"))
        names = {
            str(label.own_id): name
            for name, label in labels.items()
            if isinstance(label.own_id, str) or _is_int(label.own_id)
        }
        status = _mapping(reduced.get("pg_status"))
        by_id = _names_by_id(names, config, status)
        total = _int(reduced.get("total"))
        return RankDump(
            rank=rank,
            source=source,
            host=host,
            version=share(_text(reduced.get("version")) or "") or None,
            device=device,
            ops=ops,
            config=config,
            descs={name: label.desc for name, label in labels.items() if label.desc is not None},
            counters={by_id[key]: _counters(value) for key, value in status.items() if key in by_id},
            durations={
                by_id[key]: _timed(rows) for key, rows in _mapping(reduced.get("durations")).items() if key in by_id
            },
            channels=_channels(_mapping(reduced.get("channels")), by_id),
            launches=_launches(_mapping(reduced.get("launches")), by_id),
            total=len(ops) if total is None else total,
            wrapped=reduced.get("oldest") not in (0, None),
            span_s=_span_s(ops, _int(reduced.get("oldest_ns"))),
            only_active=bool(ops) and reduced.get("finished") is False and not _from_first(ops, reduced),
        )

    def _config(self, raw: object) -> dict[str, Group]:
        groups = {}
        for key, value in _mapping(raw).items():
            if isinstance(value, dict):
                row = (key, _text(value.get("desc")) or "", _listed(value.get("ranks")))
                if row not in self._groups:
                    self._groups[row] = Group(row[0], row[1], self._ranks(row[2]))
                groups[key] = self._groups[row]
        return groups

    def _ranks(self, text: str) -> tuple[int, ...]:
        known = self._members.get(text)
        if known is None:
            numbers = (int(n) for n in (_NUMBER.findall(text) if _RANK_LIST.fullmatch(text) else ()))
            known = self._members[text] = tuple(dict.fromkeys(n for n in numbers if n < MAX_WORLD))
        return known


def _listed(ranks: object) -> str:
    """A list of ranks as the recorder writes it: as text: a world of thousands is compared quickly.

    "" for one that holds anything else: what is left of it would leave members out.
    """
    if isinstance(ranks, str):
        return ranks
    members = _list(ranks)[:MAX_WORLD]
    return ",".join(map(str, members)) if all(map(_is_int, members)) else ""


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


def _channels(by_id: Mapping[str, Any], names: Mapping[str, str]) -> dict[Channel, Sequence[int]]:
    channels: dict[Channel, Sequence[int]] = {}
    for own_id, rows in by_id.items():
        for name, raw in _mapping(rows).items():
            ends = transfer_of(name)
            if ends is not None and own_id in names:
                channel = Channel(names[own_id], ends[0] == "send", *ends[1])
                channels[channel] = array("q", sorted(_numbers(raw)))
    return channels


def _launches(by_id: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, tuple[Sequence[int], Sequence[int]]]:
    launches: dict[str, tuple[Sequence[int], Sequence[int]]] = {}
    for own_id, raw in by_id.items():
        columns = [_numbers(column) for column in _list(raw)]
        if own_id in names and len(columns) == 2 and len(columns[0]) == len(columns[1]):
            launches[names[own_id]] = (columns[0], columns[1])
    return launches


def _numbers(raw: object) -> "array[int]":
    """A column of numbers; empty where one is none."""
    try:
        return array("q", _list(raw))
    except (TypeError, OverflowError):
        return array("q")


def _from_first(ops: Sequence[Op], reduced: Mapping[str, Any]) -> bool:
    """Whether the file lists all that was ever recorded: no number is left out, from the first to the newest."""
    return reduced.get("oldest") == 0 and reduced.get("total") == ops[-1].record + 1


def _span_s(ops: Sequence[Op], oldest_ns: int | None) -> float | None:
    newest_ns = ops[-1].created_ns if ops else None
    return None if newest_ns is None or oldest_ns is None or oldest_ns <= 0 else max(0, newest_ns - oldest_ns) / 1e9


def _counters(raw: object) -> Counters:
    values = raw if isinstance(raw, dict) else {}

    def count(key: str) -> int | None:
        value = values.get(key)
        if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 20:
            value = int(value)
        # -1 until the first one, which has the number 1 (torch 2.13, `c10d/logger.hpp`, `ProcessGroupStatus`).
        return max(value, 0) if _is_int(value) and value >= -1 else None

    return Counters(count("last_enqueued_collective"), count("last_completed_collective"))


def _timed(rows: object) -> dict[int, float]:
    pairs = [row for row in _list(rows) if isinstance(row, (list, tuple)) and len(row) == 2 and _is_int(row[0])]
    return {seq: ms for seq, raw in pairs if (ms := _number(raw)) is not None}


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
