"""One sentence and one next check for each kind of origin."""

from collections.abc import Mapping, Sequence

from oncall.flight_recorder.model import Group, Kind, Op, Origin
from oncall.run.nodes import fold_ranks, name_folded

_CHECKS = {
    Kind.MISSING_COLLECTIVE: "what skips the call on this rank: a parameter without gradient, an empty batch",
    Kind.EXTRA_COLLECTIVE: "the branch around the call site: a condition that holds on this rank alone",
    Kind.SIZE_MISMATCH: "the shape at the call site: data-dependent sizes must be exchanged first",
    Kind.DTYPE_MISMATCH: "the element type at the call site: autocast or a cast that this rank alone does",
    Kind.TYPE_MISMATCH: "the two call sites: the ranks took different branches",
    Kind.SPLIT_MISMATCH: "the split sizes of every member: what one sends another must expect",
    Kind.UNEVEN_ITERATIONS: "the number of batches or micro-batches on this rank against its peers",
    Kind.EARLY_EXIT: "the length of this rank's data loader: drop_last, a sampler that pads, join()",
    Kind.STUCK_BEFORE_COLLECTIVE: "this rank's main-thread stack (py-spy dump), its last log line, its process state",
    Kind.IN_LAUNCH: "the native stack of this rank (py-spy dump --native): inside the library call or the allocator",
    Kind.GPU_STALLED: "Xid and ECC errors of this rank's GPU, its power against its use, and a second snapshot",
    Kind.P2P_MISMATCH: "the pipeline schedule at both call sites",
    Kind.CYCLE: "the order in which these ranks use the groups along the ring",
    Kind.TRANSPORT_STALL: "NCCL RAS twice, NIC and switch counters of these hosts, a pair test between them",
    Kind.PROCESS_LOST: "the process list and kernel log of this rank's node, and the rank's own log",
}

_CLAIMS = {
    Kind.MISSING_COLLECTIVE: "skipped {op}",
    Kind.EXTRA_COLLECTIVE: "issued one more {mine} where its peers issue {op}",
    Kind.SIZE_MISMATCH: "issued {mine} where its peers issue {op}",
    Kind.DTYPE_MISMATCH: "issued {op} with another element type than its peers",
    Kind.TYPE_MISMATCH: "issued {mine} where its peers issued {op}",
    Kind.SPLIT_MISMATCH: "send and receive different totals in {op}",
    Kind.UNEVEN_ITERATIONS: "ran a different number of iterations before {op}",
    Kind.EARLY_EXIT: "left the loop and waits in {mine} while its peers issue {op}",
    Kind.STUCK_BEFORE_COLLECTIVE: "has not issued {op}",
    Kind.IN_LAUNCH: "is inside the launch call of {op}",
    Kind.GPU_STALLED: "still holds {op} that a peer finished",
    Kind.P2P_MISMATCH: "disagree on a send and its receive",
    Kind.CYCLE: "wait for each other in a ring",
    Kind.TRANSPORT_STALL: "all joined {op} and none finishes it",
    Kind.PROCESS_LOST: "left no dump and is the only one unaccounted for in {op}",
}


def next_check(kind: Kind) -> str:
    """What to look at next, outside the dumps."""
    return _CHECKS[kind]


def says(kind: Kind, ranks: Sequence[int], *, group: Group, seq: int, op: Op | None, mine: Op | None) -> str:
    """The headline: who, what, and in which group at which sequence number."""
    names = {
        "op": _called(op, mine) if op else "an operation",
        "mine": _called(mine, op) if mine else "another operation",
    }
    who = name_folded(fold_ranks(ranks))
    return f"{who} {_CLAIMS[kind].format(**names)} (group {group.label}, seq {seq})"


def says_both_sides(sides: Mapping[tuple[int, ...], Op], origin: Origin) -> str:
    """The headline of a tie: what each side issued, none of them accused."""
    parts = [f"{name_folded(fold_ranks(ranks))} issued {_in_full(op)}" for ranks, op in sides.items()]
    return f"{', '.join(parts)}: which is wrong the dumps do not tell{_place(origin)}"


def says_half_done(holders: Sequence[int], finished: Sequence[int], origin: Origin) -> str:
    """The headline of an operation that some members finished while others hold it for good."""
    done, left = (name_folded(fold_ranks(sorted(ranks))) for ranks in (finished, holders))
    return f"{left} joined {origin.op} and do not finish it, though {done} did{_place(origin)}"


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
