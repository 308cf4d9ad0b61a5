"""Lists the entries of each rank, as `torchfrtrace -j` does, in record order."""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime

from oncall.flight_recorder.collective_table import counted
from oncall.flight_recorder.frames import call_site
from oncall.flight_recorder.model import DumpSet, Op, RankDump
from oncall.flight_recorder.report import place
from oncall.neutral import neutral


def list_entries(dumps: DumpSet, ranks: Collection[int] | None, groups: Collection[str] | None) -> Iterator[str]:
    """Text lines of all entries, and of files that gave none; `ranks` and `groups` (by name or purpose) narrow them.

    None means all.
    """
    for rank, dump in dumps.dumps.items():
        if ranks is None or rank in ranks:
            chosen = [op for op in dump.ops if groups is None or {op.group, dump.descs.get(op.group)} & set(groups)]
            yield f"rank {rank}: {len(chosen)} of {counted(dump.total, 'entry', 'entries')} ({neutral(dump.source)})"
            yield from (f"  {neutral(_line(op, dump))}" for op in chosen)
    for refused in dumps.refused:
        if ranks is None or refused.rank is None or refused.rank in ranks:
            who = "not read" if refused.rank is None else f"rank {refused.rank}: not read"
            yield f"{who}: {neutral(refused.reason)} ({neutral(refused.source)})"


def _line(op: Op, dump: RankDump) -> str:
    group = dump.descs.get(op.group) or op.group
    number = f"seq {op.seq}" if op.peers is None else f"p2p {op.p2p_seq} {_end(op.peers[0])}->{_end(op.peers[1])}"
    sizes = f"{_count(op.signature.sent)}->{_count(op.signature.received)}"
    types = "/".join(dict.fromkeys(op.signature.dtypes)) or "-"
    when = _time(op.created_ns)
    site = call_site(op)
    where = "-" if site is None else place(site)
    return f"{op.record}  {group}  {number}  {op.signature.op}  {sizes} {types}  {_state(op)}  {when}  {where}"


def _end(local: int | None) -> str:
    return "?" if local is None else str(local)


def _state(op: Op) -> str:
    """As the recorder wrote it; a backend that blocks the host ends an operation by retiring it alone."""
    told = op.state or "no state"
    return f"{told}, retired" if op.done and told != "completed" else told


def _count(elements: int | None) -> str:
    return "?" if elements is None else str(elements)


def _time(ns: int | None) -> str:
    """UTC to the microsecond; `-` for a time no calendar holds."""
    if ns is None or not 0 < ns < 4_102_444_800_000_000_000:
        return "-"
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
