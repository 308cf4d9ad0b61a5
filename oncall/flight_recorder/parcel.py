"""Carries what one process loaded to another: columns of numbers instead of a million operations one by one."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from oncall.flight_recorder.model import STATES, Op, RankDump, Refused

Row = RankDump | Refused
_TOLD = (None, *STATES)


@dataclass(frozen=True, slots=True)
class Parcel:
    """Rows whose dumps are without operations, and these in columns over all dumps; `counts` is how many each has.

    `numbers` holds record, sequence number, p2p sequence number and time of creation (0: not known) of each operation,
    `places` where its group, signature, stack and peers stand in the tables, `progress` what its state comes to.
    """

    rows: list[Row]
    counts: list[int]
    numbers: "array[int]"
    places: "array[int]"
    progress: bytearray
    tables: tuple[list[Any], list[Any], list[Any], list[Any]]


class _Table:
    """Values by place; what is one object gets one place."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[int, int] = {}

    def place(self, value: Any) -> int:
        found = self._places.get(id(value))
        if found is None:
            found = self._places[id(value)] = len(self.values)
            self.values.append(value)
        return found


def pack(rows: Sequence[Row]) -> Parcel:
    """Put rows into a parcel."""
    groups, signatures, stacks, peers = tables = (_Table(), _Table(), _Table(), _Table())
    numbers, places, progress = array("q"), array("L"), bytearray()
    for op in _all_ops(rows):
        numbers.extend((op.record, op.seq, op.p2p_seq, op.created_ns or 0))
        places.extend(
            (groups.place(op.group), signatures.place(op.signature), stacks.place(op.stack), peers.place(op.peers))
        )
        progress.append(2 * _TOLD.index(op.state) + op.done)
    return Parcel(
        rows=[replace(row, ops=()) if isinstance(row, RankDump) else row for row in rows],
        counts=[len(row.ops) for row in rows if isinstance(row, RankDump)],
        numbers=numbers,
        places=places,
        progress=progress,
        tables=(tables[0].values, tables[1].values, tables[2].values, tables[3].values),
    )


def unpack(parcel: Parcel) -> Iterator[Row]:
    """The rows of a parcel, in order."""
    ops, counts = _ops(parcel), iter(parcel.counts)
    for row in parcel.rows:
        yield replace(row, ops=tuple(islice(ops, next(counts)))) if isinstance(row, RankDump) else row


def _all_ops(rows: Iterable[Row]) -> Iterator[Op]:
    for row in rows:
        if isinstance(row, RankDump):
            yield from row.ops


def _ops(parcel: Parcel) -> Iterator[Op]:
    groups, signatures, stacks, peers = parcel.tables
    numbers, places = iter(parcel.numbers), iter(parcel.places)
    columns = zip(numbers, numbers, numbers, numbers, places, places, places, places, parcel.progress, strict=True)
    for record, seq, p2p_seq, created_ns, group, signature, stack, ends, progress in columns:
        yield Op(
            record,
            groups[group],
            seq,
            p2p_seq,
            signatures[signature],
            progress % 2 == 1,
            created_ns or None,
            stacks[stack],
            peers[ends],
            _TOLD[progress // 2],
        )
