"""One sentence and one next check for each kind of origin."""

from collections.abc import Mapping, Sequence

from oncall.flight_recorder.model import Group, Kind, Op, Origin
from oncall.run.nodes import fold_ranks, name_folded

_CHECKS = {
    Kind.MISSING_COLLECTIVE: "what skips the call there: a parameter without gradient, an empty batch",
    Kind.EXTRA_COLLECTIVE: "the branch around the call site: a condition that holds there alone",
    Kind.SIZE_MISMATCH: "the shape at the call site: data-dependent sizes must be exchanged first",
    Kind.DTYPE_MISMATCH: "the element type at the call site: autocast or a cast that is done there alone",
    Kind.TYPE_MISMATCH: "the two call sites: the ranks took different branches",
    Kind.SPLIT_MISMATCH: "the split sizes of every member: what one sends another must expect",
    Kind.UNEVEN_ITERATIONS: "the number of batches or micro-batches there against the peers",
    Kind.EARLY_EXIT: "the length of the data loader there: drop_last, a sampler that pads, join()",
    Kind.STUCK_BEFORE_COLLECTIVE: "the main-thread stack (py-spy dump), the last log line, the process state",
    Kind.IN_LAUNCH: "the native stack (py-spy dump --native): inside the library call or the allocator",
    Kind.GPU_STALLED: "Xid and ECC errors of the GPU, its power against its use, and a second snapshot",
    Kind.P2P_MISMATCH: "the pipeline schedule at both call sites",
    Kind.CYCLE: "the order in which these ranks use the groups along the ring",
    Kind.TRANSPORT_STALL: "NCCL RAS twice, NIC and switch counters of these hosts, a pair test between them",
    Kind.PROCESS_LOST: "the process list and kernel log of its node, and its own log",
}

_CLAIMS = {
    Kind.MISSING_COLLECTIVE: "skipped {op}",
    Kind.EXTRA_COLLECTIVE: "issued one more {mine} where {its} peers issue {op}",
    Kind.SIZE_MISMATCH: "issued {mine} where {its} peers issue {op}",
    Kind.DTYPE_MISMATCH: "issued {op} with another element type than {its} peers",
    Kind.TYPE_MISMATCH: "issued {mine} where {its} peers issued {op}",
    Kind.SPLIT_MISMATCH: "send and receive different totals in {op}",
    Kind.UNEVEN_ITERATIONS: "ran a different number of iterations before {op}",
    Kind.EARLY_EXIT: "left the loop and wait{s} in {mine} while {its} peers issue {op}",
    Kind.STUCK_BEFORE_COLLECTIVE: "{has} not issued {op}",
    Kind.IN_LAUNCH: "{is_} inside the launch call of {op}",
    Kind.GPU_STALLED: "still hold{s} {op} that a peer finished",
    Kind.P2P_MISMATCH: "disagree on a send and its receive",
    Kind.CYCLE: "wait for each other in a ring",
    Kind.TRANSPORT_STALL: "all joined {op} and none finishes it",
    Kind.PROCESS_LOST: "left no dump and is the only one unaccounted for in {op}",
}


_ONE = {"has": "has", "is_": "is", "s": "s", "its": "its"}
_SEVERAL = {"has": "have", "is_": "are", "s": "", "its": "their"}
_OF_ONE_RANK = {Kind.STUCK_BEFORE_COLLECTIVE, Kind.IN_LAUNCH, Kind.GPU_STALLED}
"""Kinds that are found rank by rank: several ranks at one operation are one fault to the reader."""


def next_check(kind: Kind) -> str:
    """What to look at next, outside the dumps."""
    return _CHECKS[kind]


def says(kind: Kind, ranks: Sequence[int], *, group: Group, seq: int, op: Op | None, mine: Op | None) -> str:
    """The headline: who, what, and in which group at which sequence number."""
    names = {
        "op": _called(op, mine) if op else "an operation",
        "mine": _called(mine, op) if mine else "another operation",
    }
    return f"{_claim(kind, ranks, names)} (group {group.label}, seq {seq})"


def together(origins: Sequence[Origin]) -> list[list[Origin]]:
    """The origins by fault: ranks that did the same at the same operation are of one, in the order of the first."""
    alike: dict[object, list[Origin]] = {}
    for number, each in enumerate(origins):
        one_by_one = each.kind in _OF_ONE_RANK
        key = (each.kind, each.group, each.seq, each.op, each.grade, each.explains) if one_by_one else number
        alike.setdefault(key, []).append(each)
    return list(alike.values())


def says_together(origins: Sequence[Origin]) -> str:
    """The headline of one fault of several ranks, as `together` puts them."""
    first = origins[0]
    if len(origins) == 1:
        return first.says
    ranks = sorted(rank for each in origins for rank in each.ranks)
    return _claim(first.kind, ranks, {"op": first.op or "an operation"}) + _place(first)


def says_both_sides(sides: Mapping[tuple[int, ...], Op], origin: Origin) -> str:
    """The headline of a tie: what each side issued, none of them accused."""
    parts = [f"{name_folded(fold_ranks(ranks))} issued {_in_full(op)}" for ranks, op in sides.items()]
    return f"{', '.join(parts)}: which is wrong the dumps do not tell{_place(origin)}"


def says_half_done(holders: Sequence[int], finished: Sequence[int], origin: Origin) -> str:
    """The headline of an operation that some members finished while others hold it for good."""
    done, left = (name_folded(fold_ranks(sorted(ranks))) for ranks in (finished, holders))
    return f"{left} joined {origin.op} and do not finish it, though {done} did{_place(origin)}"


def _claim(kind: Kind, ranks: Sequence[int], names: Mapping[str, str]) -> str:
    words = _ONE if len(ranks) == 1 else _SEVERAL
    return f"{name_folded(fold_ranks(ranks))} {_CLAIMS[kind].format(**names, **words)}"


def _place(origin: Origin) -> str:
    group = origin.group
    return "" if group is None else f" (group {group.label}, seq {origin.seq})"


def _in_full(op: Op) -> str:
    name, dtypes, sent, *_ = op.signature
    size = "" if sent is None else f" of {sent:,}"
    return f"{name}{size}{f' {dtypes[0]}' if dtypes else ''}"


def _called(op: Op, other: Op | None) -> str:
    """The operation's name, with its element count where the other side's has the same name and another count."""
    alike = other is not None and other.signature.op == op.signature.op
    if not alike or other is None or op.signature.sent in {None, other.signature.sent}:
        return op.signature.op
    return f"{op.signature.op} of {op.signature.sent:,} element{'' if op.signature.sent == 1 else 's'}"
