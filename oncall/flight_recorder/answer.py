"""The analysis as JSON, under a schema name and version."""

from dataclasses import asdict
from typing import Any

from oncall.flight_recorder.model import Analysis, Frame, Group, Hop, Origin, Undecided
from oncall.flight_recorder.snapshots import Movement

SCHEMA = "oncall.flight-recorder/1"


def as_json(analysis: Analysis) -> dict[str, Any]:
    """The answer as plain values under the schema `oncall.flight-recorder/1`; null where it is not known."""
    coverage = analysis.coverage
    return {
        "schema": SCHEMA,
        "origins": [_origin_json(origin) for origin in analysis.origins],
        "undecided": [_undecided_json(row) for row in analysis.undecided] or None,
        "motion": analysis.motion,
        "waiting": list(analysis.waiting),
        "tables": [asdict(table) for table in analysis.tables],
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
        "victim_frame": _frame_json(row.victim_frame),
    }


def _hop_json(hop: Hop) -> dict[str, Any]:
    return {
        "rank": hop.rank,
        "group": _group_json(hop.group),
        "seq": hop.seq,
        "op": hop.op,
        "held_by": list(hop.held_by),
        "why": hop.why,
        "frame": _frame_json(hop.frame),
    }


def _group_json(group: Group | None) -> dict[str, Any] | None:
    if group is None:
        return None
    return {"name": group.name, "desc": group.desc, "ranks": list(group.ranks), "inferred": group.inferred}


def _frame_json(frame: Frame | None) -> dict[str, Any] | None:
    return None if frame is None else {"name": frame.name, "file": frame.file, "line": frame.line}


def movement_json(movement: Movement) -> dict[str, Any]:
    """The comparison of two snapshots as plain values; part of the answer when a second snapshot was given."""
    return {
        "pace": movement.pace.value,
        "moved": list(movement.moved),
        "still": list(movement.still),
        "seen_once": list(movement.seen_once),
        "slow": [
            {"rank": s.rank, "waited_ms": s.waited_ms, "operations": s.operations, "basis": s.basis}
            for s in movement.slow
        ],
        "untold": movement.untold,
        "says": movement.says,
    }
