"""Launches of several operations at once: each is recorded on its own, and the entry that closes them has the state."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oncall.flight_recorder.model import Op, RankDump, Signature

Place = tuple[int, int]
"""A group and a sequence number in it."""


class Recorded(NamedTuple):
    """One rank's operations by group: collectives by sequence number, sends and receives in order.

    `launched` are all entries of the collectives that have several under one number, of which `collectives` has one.
    """

    collectives: dict[int, dict[int, Op]]
    p2p: dict[int, list[Op]]
    launched: dict[Place, list[Op]]


def sort_out(dump: RankDump, of: Mapping[str, int], p2p_groups: set[int]) -> Recorded:
    """Tell collectives from sends and receives, each with the entries that close them."""
    rows = Recorded({group: {} for group in of.values()}, defaultdict(list), {})
    before: dict[int, Op] = {}
    for op in dump.ops:
        group = of[op.group]
        if group in p2p_groups:
            ends_batch = op.peers is not None or _ends_batch(op, before.get(group))
            before[group] = op
            if ends_batch:
                rows.p2p[group].append(op)
                continue
        first = rows.collectives[group].setdefault(op.seq, op)
        if first is not op:
            rows.launched.setdefault((group, op.seq), [first]).append(op)
    return rows


def _closes(op: Op) -> bool:
    """Whether an entry stands for a launch whose operations are entries of their own; one call on many has sizes."""
    return op.signature.sent is None and op.signature.op.endswith("coalesced")


def _ends_batch(op: Op, before: Op | None) -> bool:
    """Whether an entry closes sends and receives; after a collective of its own number it closes that one.

    A launch of one kind of collective is named for it (torch 2.13, `ProcessGroupNCCL.cpp`, `endCoalescing`).
    """
    if not (op.p2p_seq and op.signature.op == "coalesced" and _closes(op)):
        return False
    return before is None or before.peers is not None or before.seq != op.seq or _closes(before)


class Launches:
    """What all ranks together tell of launches whose closing entry some of them do not have."""

    def __init__(self, dumps: Mapping[int, RankDump], rows: Mapping[int, Recorded]) -> None:
        self._closed: dict[Place, set[str]] = {}
        self._over: set[Place] = set()
        for rank, recorded in rows.items():
            for place, same in recorded.launched.items():
                if _closes(same[-1]):
                    self._closed.setdefault(place, set()).update(op.signature.op for op in same[:-1])
                elif dumps[rank].only_active:
                    self._over.add(place)
        self._over -= self._closed.keys()

    def merged(self, place: Place, same: Sequence[Op]) -> Op:
        """One operation in place of a launch.

        A dump of active operations lists the parts of a launch for ever, and its closing entry until it is over: one
        that no rank lists as closed is over, as ranks do not all stop within it at once.
        """
        last = same[-1]
        parts = tuple(op.signature for op in same if not _closes(op))
        sent = [part.sent for part in parts if part.sent is not None]
        received = [part.received for part in parts if part.received is not None]
        total = Signature(
            last.signature.op,
            parts[0].dtypes if parts else (),
            sum(sent) if sent else None,
            sum(received) if received else None,
            parts,
        )
        return last._replace(signature=total, done=last.done or place in self._over)

    def building(self, group: int, ops: Mapping[int, Op]) -> int | None:
        """The newest operation of a rank in a group, if its peers closed a launch of such there, and it has not."""
        newest = max(ops, default=None) if self._closed else None
        if newest is None or ops[newest].done or _closes(ops[newest]):
            return None
        signature = ops[newest].signature
        return newest if signature.op in self._closed.get((group, newest), ()) else None
