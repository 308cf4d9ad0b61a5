"""Timer blocks of Megatron-LM and DeepSpeed, and Megatron's straggler report.

Forms: a line of pipes; `max`, `(min, max)` and per-rank blocks (Megatron-LM core/timers.py, DeepSpeed utils/timer.py).
"""

import re

from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.numbers import number
from oncall.formats.outcome import Near, Outcome, block, event

_RANK = re.compile(r"\[Rank (\d+)\]")
_PIPE = re.compile(r"(?P<name>[^|:]+): (?P<ms>[^|]+)")
_HEAD = re.compile(r"\s*(?P<form>\(min, max\) time|max time|times) across ranks \(ms\):\s*$")
_FORMS = {"(min, max) time": "minmax", "max time": "max", "times": "all"}
_ONE = re.compile(r"\s+(?P<name>\S.*?) ?\.*: (?P<ms>[\d.]+)\s*$")
_BOTH = re.compile(r"\s+(?P<name>\S.*?) ?\.*: \((?P<low>[\d.]+), (?P<high>[\d.]+)\)\s*$")
_TIMER = re.compile(r"\s+(?P<name>\S.*?):\s*$")
_OF_RANK = re.compile(r"\s+rank\s+(?P<rank>\d+): (?P<ms>[\d.]+)\s*$")
_STAMP = re.compile(r"\s*\[(?P<date>\d{4}-\d\d-\d\d) (?P<time>[\d:.]+)\]")
_EXTREME = re.compile(r"(?P<which>M[nx])(?P<what>\w+)/Rnk: (?P<value>[\d.]+)\D*?/(?P<rank>\d+)")
_QUANTITIES = {
    "Rtt": "round_trip_ms",
    "Pwr": "power_w",
    "Tmp": "temp_c",
    "Utl": "util_pct",
    "Clk": "clock_mhz",
    "DRtt": "data_ms",
    "Etpt": "tflops",
}
_LIST = re.compile(r"\^+ (?P<which>Bottom|Top)\s+(?P<count>\d+) Ranks.*?: (?P<pairs>[\d./, ]+)$")


def read_timer_line(line: Line, log: Log) -> Outcome:
    """Read timers on one line: `time (ms) | forward: 1.0 | backward: 2.0`."""
    timers: dict[str, Json] = {}
    for found in _PIPE.finditer(line.text.partition("time (ms) |")[2]):
        timers[found["name"].strip()] = number(found["ms"])
    if not timers:
        return Near.MISS
    rank = _RANK.search(line.text)
    spoken = int(rank[1]) if rank else line.rank
    return event("timers", line, log, rank=spoken if spoken is not None else log.rank, form="pipe", timers_ms=timers)


def _take(form: str, text: str, timers: dict[str, Json], of_rank: dict[str, Json]) -> dict[str, Json] | None:
    """Put one block line into `timers`; returns the per-rank table under way, None when the block has ended."""
    if form == "all":
        if found := _OF_RANK.match(text):
            of_rank[found["rank"]] = number(found["ms"])
            return of_rank
        if found := _TIMER.match(text):
            opened: dict[str, Json] = {}
            timers[found["name"]] = opened
            return opened
        return None
    found = (_BOTH if form == "minmax" else _ONE).match(text)
    if found is None:
        return None
    timers[found["name"]] = [number(found["low"]), number(found["high"])] if form == "minmax" else number(found["ms"])
    return of_rank


def read_timer_block(line: Line, log: Log) -> Outcome:
    """Read timers over the ranks: a heading and one indented line a timer, or a timer and rank."""
    head = _HEAD.match(line.text)
    if head is None:
        return Near.MISS
    form = _FORMS[head["form"]]
    timers: dict[str, Json] = {}
    of_rank: dict[str, Json] = {}
    last = line
    for after in log.following(line):
        taken = _take(form, after.text, timers, of_rank)
        if taken is None:
            break
        of_rank, last = taken, after
    return block("timers", line, last, log, form=form, timers_ms=timers) if timers else Near.MISS


def read_straggler_line(line: Line, log: Log) -> Outcome:
    """Read the straggler detector's extremes (value and rank each) or its list of best or worst ranks."""
    if found := _LIST.match(line.text):
        pairs = [pair.split("/") for pair in found["pairs"].replace(" ", "").split(",") if "/" in pair]
        ranks: list[Json] = [[number(value), number(rank)] for value, rank in pairs]
        return event("straggler_list", line, log, which=found["which"].lower(), count=int(found["count"]), ranks=ranks)
    extremes: dict[str, Json] = {}
    for found in _EXTREME.finditer(line.text):
        if found["what"] in _QUANTITIES:
            side = "min" if found["which"] == "Mn" else "max"
            extremes[f"{side}_{_QUANTITIES[found['what']]}"] = [float(found["value"]), int(found["rank"])]
    if not extremes:
        return Near.MISS if line.text.startswith("^^^^ ") else None
    stamp = _STAMP.match(line.text)
    return event("straggler", line, log, ts=f"{stamp['date']}T{stamp['time']}" if stamp else None, **extremes)
