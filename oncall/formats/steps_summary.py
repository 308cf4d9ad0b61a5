"""What the step lines of one run mean together: how far it came, which part or rank is slow, which span never ended."""

from collections.abc import Sequence

from oncall.formats.event import Event, Json
from oncall.formats.steps_trace import open_spans

UNEVEN_RATIO = 2.0
UNEVEN_MS = 50.0
"""A timer whose slowest rank takes twice as long as its fastest, by 50 ms or more, is worth a word."""

_EXTREMES = {
    "max_round_trip_ms": "slowest",
    "max_temp_c": "hottest",
    "min_clock_mhz": "lowest clock",
    "min_power_w": "lowest power",
}


def _slow_part(events: Sequence[Event]) -> str | None:
    """The timer with the widest gap between ranks in the newest min-max block."""
    blocks = [each for each in events if each.kind == "timers" and each.fields["form"] == "minmax"]
    timers = blocks[-1].fields["timers_ms"] if blocks else None
    widest: tuple[float, str] | None = None
    for name, pair in (timers if isinstance(timers, dict) else {}).items():
        if not isinstance(pair, list) or len(pair) != 2:
            continue
        low, high = pair
        if not isinstance(low, int | float) or not isinstance(high, int | float):
            continue
        if high < low * UNEVEN_RATIO or high - low < UNEVEN_MS:
            continue
        verb, what = ("waits", " for data") if name == "batch-generator" else ("takes", "")
        said = f"{name}: one rank {verb} {int(high)} ms{what}, another {int(low)} ms"
        widest = max(widest or (0.0, ""), (high - low, said))
    return widest[1] if widest else None


def _straggler(events: Sequence[Event]) -> dict[str, Json]:
    """The slowest rank of the newest straggler report, when a second reading speaks against it as well."""
    reports = [each for each in events if each.kind == "straggler"]
    slowest = reports[-1].fields.get("max_round_trip_ms") if reports else None
    if not isinstance(slowest, list):
        return {}
    rank = slowest[1]
    evidence: list[Json] = []
    for name, word in _EXTREMES.items():
        extreme = reports[-1].fields.get(name)
        if isinstance(extreme, list) and extreme[1] == rank:
            evidence.append(word)
    return {"suspect_rank": rank, "evidence": evidence} if len(evidence) > 1 else {}


def summarise_steps(events: Sequence[Event]) -> dict[str, Json]:
    """Sum up step, timer, straggler and trace events; a missing key is not known."""
    steps = [each for each in events if each.kind == "step"]
    said: dict[str, Json] = {}
    if steps:
        last = steps[-1]
        said |= {"steps": len(steps), "last_step": last.fields.get("step"), "last_step_ts": last.fields.get("ts")}
    if slow := _slow_part(events):
        said["slow_part"] = slow
    said |= _straggler(events)
    if any(each.kind == "span_start" for each in events):
        said["open_spans"] = [
            {name: each.fields[name] for name in ("rank", "name", "step")} for each in open_spans(events)
        ]
    return said
