"""The analysis as text for a terminal and as JSON."""

import re
from collections.abc import Iterator
from typing import Any

from oncall.flight_recorder.model import Analysis, Frame, Group, Hop, Origin, Undecided
from oncall.flight_recorder.ranks import fold

SCHEMA = "oncall.flight-recorder/1"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def neutral(text: str) -> str:
    """Text from a dump made safe for a terminal: control and direction characters become `\\x..` escapes."""
    return _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", text)


def as_text(analysis: Analysis) -> str:
    """The whole answer: one headline per origin with its evidence, what stays open, how complete the dumps were."""
    return "\n".join(neutral(line) for line in _lines(analysis)) + "\n"


def _lines(analysis: Analysis) -> Iterator[str]:
    if analysis.motion is not None:
        yield f"no origin: {analysis.motion}"
    elif not analysis.waiting:
        yield "no origin: no rank waits on anything" if analysis.coverage.dumps else "no usable dump"
    elif not analysis.origins and not analysis.undecided:
        yield "no origin: nobody waits on a rank that is behind; a second snapshot a minute later would confirm it"
    for origin in analysis.origins:
        yield from _origin_lines(origin)
    for open_part in analysis.undecided:
        yield from _undecided_lines(open_part)
    yield from _coverage_lines(analysis)


def _origin_lines(origin: Origin) -> Iterator[str]:
    yield f"{origin.kind}: {origin.says}"
    share = origin.explains
    yield f"  {origin.grade}; explains {share.ranks} of {share.waiting} waiting ranks"
    if origin.frame is not None:
        yield f"  call site   {place(origin.frame)}"
    elif origin.last_frame is not None:
        yield f"  last called {place(origin.last_frame)}"
    if origin.victim_frame is not None:
        yield f"  peers wait  {place(origin.victim_frame)}"
    for hop in origin.chain:
        yield f"  {_hop_text(hop)}"
    yield f"  next check  {origin.next_check}"


def _hop_text(hop: Hop) -> str:
    what = f"rank {hop.rank} waits on {hop.op} (group {hop.group.desc or hop.group.name}, seq {hop.seq})"
    return f"{what}: rank {fold(hop.held_by)} {hop.why}" if hop.held_by else f"{what}: {hop.why}"


def _undecided_lines(open_part: Undecided) -> Iterator[str]:
    share = open_part.explains
    yield f"undecided: {open_part.reason}"
    who = fold(open_part.deciding)
    yield f"  {share.ranks} of {share.waiting} waiting ranks; the dumps of ranks {who} would decide"


def _coverage_lines(analysis: Analysis) -> Iterator[str]:
    coverage = analysis.coverage
    yield f"dumps: {coverage.dumps} of {coverage.world} ranks"
    for absent in coverage.absent:
        yield f"  rank {absent.rank} not observed: {absent.reason}"
    for refused in coverage.refused:
        if refused.rank is None:
            yield f"  {refused.source}: {refused.reason}"
    for note in coverage.notes:
        yield f"  {note}"


def place(frame: Frame) -> str:
    """A frame as function and file:line."""
    return f"{frame.name} ({frame.file}:{frame.line})"


def as_json(analysis: Analysis) -> dict[str, Any]:
    """The answer as plain values under the schema `oncall.flight-recorder/1`; null where it is not known."""
    coverage = analysis.coverage
    return {
        "schema": SCHEMA,
        "origins": [_origin_json(origin) for origin in analysis.origins],
        "undecided": [_undecided_json(row) for row in analysis.undecided] or None,
        "motion": analysis.motion,
        "waiting": list(analysis.waiting),
        "coverage": {
            "world": coverage.world,
            "dumps": coverage.dumps,
            "absent": [{"rank": a.rank, "reason": a.reason} for a in coverage.absent],
            "refused": [{"file": r.source, "rank": r.rank, "reason": r.reason} for r in coverage.refused],
            "notes": list(coverage.notes),
        },
    }


def _origin_json(origin: Origin) -> dict[str, Any]:
    return {
        "kind": origin.kind.value,
        "ranks": list(origin.ranks),
        "among": list(origin.among),
        "group": _group_json(origin.group),
        "seq": origin.seq,
        "op": origin.op,
        "found_op": origin.found_op,
        "frame": _frame_json(origin.frame),
        "last_frame": _frame_json(origin.last_frame),
        "victim_frame": _frame_json(origin.victim_frame),
        "grade": origin.grade.value,
        "explains": {"ranks": origin.explains.ranks, "waiting": origin.explains.waiting},
        "chain": [_hop_json(hop) for hop in origin.chain],
        "says": origin.says,
        "next_check": origin.next_check,
    }


def _undecided_json(row: Undecided) -> dict[str, Any]:
    return {
        "deciding": list(row.deciding),
        "group": _group_json(row.group),
        "seq": row.seq,
        "explains": {"ranks": row.explains.ranks, "waiting": row.explains.waiting},
        "reason": row.reason,
    }


def _hop_json(hop: Hop) -> dict[str, Any]:
    return {
        "rank": hop.rank,
        "group": _group_json(hop.group),
        "seq": hop.seq,
        "op": hop.op,
        "held_by": list(hop.held_by),
        "why": hop.why,
    }


def _group_json(group: Group | None) -> dict[str, Any] | None:
    if group is None:
        return None
    return {"name": group.name, "desc": group.desc, "ranks": list(group.ranks), "inferred": group.inferred}


def _frame_json(frame: Frame | None) -> dict[str, Any] | None:
    return None if frame is None else {"name": frame.name, "file": frame.file, "line": frame.line}
