"""torchtitan's structured log: a JSON record a line, spans that start and end (torchtitan/observability, 2026-05 on).

A span that starts and never ends is where the rank stands.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from oncall.formats.event import Event, Json, Parsed
from oncall.formats.lines import MAX_LINE_BYTES


class _Record(msgspec.Struct):
    log_type: str
    log_type_name: str
    global_rank: int | None = None
    rank: int | None = None
    step: int | None = None
    time_us: int | None = None
    event_name: str | None = None
    value: Any = None
    task_name: str | None = None
    step_tags: list[str] | None = None
    host_name: str | None = None
    caller: str | None = None


_DECODER = msgspec.json.Decoder(_Record)
_SPANS = {"_start": "span_start", "_end": "span_end", "_error": "span_error"}


def _event(record: _Record, name: str, number: int, rank: int | None) -> Event | None:
    spoken = record.global_rank if record.global_rank is not None else record.rank
    measured = record.value if isinstance(record.value, int | float) else None
    common: dict[str, Json] = {
        "rank": spoken if spoken is not None else rank,
        "host": record.host_name,
        "step": record.step,
        "time_us": record.time_us,
    }
    if record.log_type_name == "metric_value":
        return Event("trace_scalar", name, number, number, {**common, "name": record.event_name, "value": measured})
    if record.log_type == "instant":
        return Event("trace_instant", name, number, number, {**common, "name": record.log_type_name})
    for suffix, kind in _SPANS.items():
        if record.log_type_name.endswith(suffix):
            fields: dict[str, Json] = {
                **common,
                "name": record.log_type_name.removesuffix(suffix),
                "task": record.task_name,
                "tags": list(record.step_tags) if record.step_tags else None,
                "duration_ms": measured if kind != "span_start" else None,
                "caller": record.caller,
            }
            return Event(kind, name, number, number, fields)
    return None


def read_trace(data: bytes, name: str, *, rank: int | None = None) -> Parsed:
    """Read a structured log; a last record that is cut short gives `truncated_record`: the process died or writes."""
    events: list[Event] = []
    unrecognised: list[int] = []
    lines = data.split(b"\n")
    filled = max((number for number, raw in enumerate(lines, 1) if raw.strip()), default=0)
    for number, raw in enumerate(lines[:filled], 1):
        if not raw.strip():
            continue
        try:
            found = _event(_DECODER.decode(raw[:MAX_LINE_BYTES]), name, number, rank)
        except (msgspec.DecodeError, RecursionError):
            if number == filled and not raw.rstrip().endswith(b"}"):
                events.append(Event("truncated_record", name, number, number, {"rank": rank}))
                continue
            found = None
        if found is None:
            unrecognised.append(number)
        else:
            events.append(found)
    return Parsed(tuple(events), tuple(unrecognised))


def open_spans(events: Sequence[Event]) -> list[Event]:
    """The `span_start` events without an end or error of the same rank, name and task after them, oldest first."""
    open_now: list[Event] = []
    for each in events:
        if each.kind == "span_start":
            open_now.append(each)
        elif each.kind in {"span_end", "span_error"}:
            key = (each.fields["rank"], each.fields["name"])
            for started in reversed(open_now):
                if (started.fields["rank"], started.fields["name"]) == key:
                    open_now.remove(started)
                    break
    return open_now
