"""The raw evidence of one rank, as lines."""

from collections.abc import Iterator
from datetime import UTC, datetime

from oncall.console.orders import ShowRaw
from oncall.console.told import RawText
from oncall.flight_recorder.model import Op
from oncall.flight_recorder.report import place
from oncall.formats.pyspy import parse_pyspy
from oncall.formats.stacks import StackDump
from oncall.readings.case import Case
from oncall.readings.fresh_dumps import all_dumps
from oncall.readings.stack_set import own_stacks, raw_stack

_MOST_LINES = 30_000


def raw_text(case: Case, order: ShowRaw) -> RawText:
    """What one source brought of one rank."""
    return _stack(case, order.rank) if order.what == "stack" else _dump(case, order.rank)


def _stack(case: Case, rank: int) -> RawText:
    title = f"stack of {case.ranks.label(rank)}"
    evidence, at = case.evidence("stacks"), case.ranks.at(rank)
    pid, data = (evidence and raw_stack(evidence, rank, at.host if at else None)) or ("", b"")
    if not data.strip():
        stacks = own_stacks(case)
        why = (stacks and stacks.failures.get(rank)) or case.coverage("stacks").describe()
        return RawText(title, (f"no stack of rank {rank} was taken: {why}",))
    lines = [line for dump in parse_pyspy(data).dumps for line in _threads(dump)]
    return RawText(title, _first(lines or data.decode("utf-8", "replace").split("\n")), f"py-spy dump --pid {pid}")


def _first(lines: list[str]) -> tuple[str, ...]:
    more = len(lines) - _MOST_LINES
    return (*lines[:_MOST_LINES], *([f"{more:,} more lines are in the bundle"] if more > 0 else []))


def _threads(dump: StackDump) -> Iterator[str]:
    """Every thread as py-spy prints it without --json, the main one first."""
    yield f"Process {dump.pid}: {dump.cmdline or 'command line not known'}"
    for thread in sorted(dump.threads, key=lambda each: each is not dump.main_thread):
        yield ""
        number = thread.tid if thread.tid is not None else "?"
        yield f'Thread {number} ({thread.status}): "{thread.name or "not named"}"'
        yield from (f"    {frame}" for frame in thread.frames)


def _dump(case: Case, rank: int) -> RawText:
    title = f"Flight Recorder entries of {case.ranks.label(rank)}, newest first"
    dumps = all_dumps(case)
    dump = dumps.dumps.get(rank) if dumps else None
    if dump is None:
        return RawText(title, (f"no usable dump of rank {rank}",))
    return RawText(title, _first([_entry(op) for op in reversed(dump.ops)]), f"oncall fr {dump.source}")


def _entry(op: Op) -> str:
    size = "" if op.signature.sent is None else f"{op.signature.sent:,} elements"
    cells = (
        f"{op.record:>8}",
        f"{op.group:<10}",
        f"{op.seq:>8}",
        f"{op.signature.op:<24}",
        f"{'completed' if op.done else 'open':<9}",
        f"{size:>20}",
        f"{'/'.join(dict.fromkeys(op.signature.dtypes)):<10}",
        f"{datetime.fromtimestamp(op.created_ns / 1e9, UTC):%H:%M:%S.%f}" if op.created_ns else " " * 15,
        place(op.stack[0]) if op.stack else "",
    )
    return "  ".join(cells)
