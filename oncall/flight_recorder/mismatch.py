"""Whether the members of one collective agree on what it is, and which of them is the odd one out."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from oncall.flight_recorder.model import Kind, Op, Signature

_SENT_ONLY = {"broadcast", "reduce", "gather", "reduce_scatter"}
"""Only what goes in is the same everywhere: non-roots have no output, list forms may have uneven parts."""
_RECEIVED_ONLY = {"scatter", "all_gather", "allgather"}
_UNSIZED = {"barrier", "all_to_all"}

Vote = tuple[str, tuple[str, ...], tuple[int | None, ...]]
"""What has to be equal over the members: operation, element types, element counts."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """The sides of one collective, largest first; `odd` is the minority, empty when no side has the majority."""

    sides: tuple[tuple[int, ...], ...]
    odd: tuple[int, ...]
    kind: Kind


def vote(signature: Signature) -> Vote:
    """Reduce a signature to what all members must share; list forms with uneven parts are legal and drop out.

    Of a launch of several operations each has a vote, in order.
    """
    op = signature.op
    if signature.parts:
        ballots = [vote(part) for part in signature.parts]
        names = " ".join([op, *dict.fromkeys(name for name, _, _ in ballots)])
        dtypes = tuple(dtype for _, own, _ in ballots for dtype in own)
        return names, dtypes, tuple(count for _, _, counts in ballots for count in counts)
    rule = op.removesuffix("_coalesced")
    if rule in _UNSIZED or is_bare(signature):
        return op, signature.dtypes if rule == "all_to_all" else (), ()
    if rule in _SENT_ONLY:
        return op, signature.dtypes[:1], (signature.sent,)
    if rule in _RECEIVED_ONLY:
        return op, signature.dtypes[:1], (signature.received,)
    return op, signature.dtypes, (signature.sent, signature.received)


def is_bare(signature: Signature) -> bool:
    """Whether only the closing entry of a launch is known, which tells neither sizes nor types."""
    return signature.op.endswith("coalesced") and signature.sent is None and not signature.parts


def agree(here: Signature, there: Signature) -> bool:
    """Whether two members called the same, as far as both tell."""
    if is_bare(here) or is_bare(there):
        return here.op == there.op
    return vote(here) == vote(there)


def disagreement(ops: Mapping[int, Op]) -> Disagreement | None:
    """Compare what the members recorded under one sequence number; None when they agree."""
    by_signature: dict[Signature, list[int]] = defaultdict(list)
    for rank, op in ops.items():
        by_signature[op.signature].append(rank)
    if len(by_signature) < 2:
        return None
    untold = any(map(is_bare, by_signature))
    sides: dict[Vote, list[int]] = defaultdict(list)
    for signature, ranks in by_signature.items():
        coalesced = untold and signature.op.endswith("coalesced")
        sides[(signature.op, (), ()) if coalesced else vote(signature)] += ranks
    if len(sides) < 2:
        return None
    ordered = sorted(sides.items(), key=lambda side: -len(side[1]))
    main, *others = ordered
    odd = tuple(sorted(rank for _, ranks in others for rank in ranks))
    majority = len(main[1]) > len(odd)
    return Disagreement(
        tuple(tuple(sorted(ranks)) for _, ranks in ordered), odd if majority else (), _kind(main[0], others[0][0])
    )


def _kind(expected: Vote, found: Vote) -> Kind:
    if expected[0] != found[0]:
        return Kind.TYPE_MISMATCH
    as_many = len(expected[2]) == len(found[2])
    return Kind.DTYPE_MISMATCH if as_many and expected[1] != found[1] else Kind.SIZE_MISMATCH


def uneven_splits(ops: Mapping[int, Op], members: int) -> bool:
    """Whether an all_to_all sends another number of elements than it receives, seen over all its members."""
    rows = [op.signature for op in ops.values()]
    if len(rows) != members or any(s.op != "all_to_all" or s.sent is None or s.received is None for s in rows):
        return False
    return sum(s.sent or 0 for s in rows) != sum(s.received or 0 for s in rows)
