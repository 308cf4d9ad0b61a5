"""The raw evidence of one rank, as lines."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from oncall.console.orders import ShowRaw
from oncall.console.told import RawText
from oncall.flight_recorder.frames import call_site
from oncall.flight_recorder.model import Op
from oncall.flight_recorder.report import place
from oncall.formats.pyspy import parse_pyspy
from oncall.formats.stacks import StackDump
from oncall.readings.case import Case
from oncall.readings.fresh_dumps import all_dumps
from oncall.readings.stack_set import own_stacks, raw_stack

_MOST_LINES = 30_000
_HEADS = ("record", "group", "seq", "operation", "state", "elements", "dtype", "issued (UTC)", "call site")
_FORMS = (">8", "<10", ">8", "<24", "<9", ">14", "<10", "<15", "")


def raw_text(case: Case, order: ShowRaw, bundle: Path) -> RawText:
    """What one source brought of one rank, as the case's `bundle` holds it."""
    if order.what == "stack":
        return _stack(case, order.rank)
    return _dump(case, order.rank, f"oncall raw {shlex.quote(str(bundle))} {order.rank} dump")


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


def _dump(case: Case, rank: int, by_hand: str) -> RawText:
    title = f"Flight Recorder entries of {case.ranks.label(rank)}, newest first"
    dumps = all_dumps(case)
    dump = dumps.dumps.get(rank) if dumps else None
    if dump is None:
        return RawText(title, (f"no usable dump of rank {rank}",))
    return RawText(title, (_line(_HEADS), *_first([_entry(op) for op in reversed(dump.ops)])), by_hand)


def _entry(op: Op) -> str:
    cells = (
        str(op.record),
        op.group,
        str(op.seq),
        op.signature.op,
        "completed" if op.done else "open",
        "" if op.signature.sent is None else f"{op.signature.sent:,}",
        "/".join(dict.fromkeys(op.signature.dtypes)),
        f"{datetime.fromtimestamp(op.created_ns / 1e9, UTC):%H:%M:%S.%f}" if op.created_ns else "",
        place(frame) if (frame := call_site(op)) else "",
    )
    return _line(cells)


def _line(cells: Sequence[str]) -> str:
    return "  ".join(f"{cell:{form}}" for cell, form in zip(cells, _FORMS, strict=True)).rstrip()
