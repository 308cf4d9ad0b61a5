"""The table that `oncall read` prints: files, events and summary, one line each, safe for a terminal."""

import json
from collections.abc import Iterator, Mapping

from oncall.formats.event import Json
from oncall.neutral import neutral

MAX_EVENTS = 500
"""Events shown of one answer; all of them are in --json."""

_COLUMNS = ("kind", "file", "line", "rank", "ts")


def _value(value: Json) -> str:
    if isinstance(value, str):
        return neutral(value)
    return json.dumps(value, ensure_ascii=True)


def _rows(value: Json) -> list[Mapping[str, Json]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _counted(number: Json, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _named(name: Json) -> str:
    return "standard input" if name == "-" else _value(name)


def _file_line(row: Mapping[str, Json]) -> str:
    name = _named(row["file"])
    if row["error"]:
        return f"{name}: not read: {_value(row['error'])}\n"
    size = f", {_counted(row['lines'], 'line')}" if row["lines"] is not None else ""
    rank = f", rank {row['rank']}" if row["rank"] is not None else ""
    missed = f", {_counted(row['unrecognised'], 'line')} not understood (first: {row['unrecognised_lines']})"
    events = _counted(row["events"], "event")
    return f"{name}: {row['format']}{rank}{size}, {events}{missed if row['unrecognised'] else ''}\n"


def _event_line(row: Mapping[str, Json]) -> str:
    line = row["line"]
    place = f"{line[0]}-{line[1]}" if isinstance(line, list) else str(line)
    rank = "" if row.get("rank") is None else f"rank {row['rank']}"
    ts = _value(row.get("ts") or "")
    rest = "  ".join(
        f"{name}={_value(value)}" for name, value in row.items() if name not in _COLUMNS and value not in (None, [], {})
    )
    return f"{place:>9}  {_value(row['kind']):<28} {rank:<10} {ts:<26} {rest}".rstrip() + "\n"


def _events(rows: list[Mapping[str, Json]]) -> Iterator[str]:
    file: Json = None
    for row in rows[:MAX_EVENTS]:
        if row["file"] != file:
            file = row["file"]
            yield f"\n{_named(file)}\n"
        yield _event_line(row)
    if len(rows) > MAX_EVENTS:
        yield f"  … {_counted(len(rows) - MAX_EVENTS, 'more event')}: --json prints all\n"


def _recorder(said: Mapping[str, Json]) -> Iterator[str]:
    for origin in _rows(said["origins"]):
        yield f"  flight recorder        {_value(origin['says'])}\n"
        yield f"    next                 {_value(origin['next_check'])}\n"
    for row in _rows(said["undecided"]):
        yield f"  flight recorder        undecided: {_value(row['reason'])}\n"
    if not said["origins"] and not said["undecided"]:
        yield f"  flight recorder        nothing waits{': ' + _value(said['motion']) if said['motion'] else ''}\n"


def _summary(said: Mapping[str, Json]) -> Iterator[str]:
    for name, value in said.items():
        if name == "flight_recorder" and isinstance(value, dict):
            yield from _recorder(value)
        elif value is not None:
            yield f"  {name:<22} {_value(value)}\n"


def _file_lines(rows: list[Mapping[str, Json]]) -> Iterator[str]:
    """One line a file; thousands of Flight Recorder dumps are one line together."""
    dumps = [row for row in rows if row["format"] == "flight-recorder"]
    yield from (_file_line(row) for row in rows if row["format"] != "flight-recorder")
    if dumps:
        ends = (
            f"{_value(dumps[0]['file'])} … {_value(dumps[-1]['file'])}" if len(dumps) > 1 else _value(dumps[0]["file"])
        )
        yield f"{ends}: {len(dumps)} flight-recorder dump{'s' if len(dumps) > 1 else ''}\n"


def read_text(answer: Mapping[str, Json]) -> str:
    """The answer of `oncall read` as text. A field that is not known is left out; nothing from a file is left raw."""
    events = _rows(answer["events"])
    lines = [*_file_lines(_rows(answer["files"])), *_events(events), "\nsummary\n"]
    summary = answer["summary"]
    told = list(_summary(summary)) if isinstance(summary, dict) else []
    unheard = "no line of these files was understood to say anything"
    nothing = "the events above do not add up to more" if events else unheard
    return "".join(lines + (told or [f"  nothing: {nothing}\n"]))
