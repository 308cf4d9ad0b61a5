"""DeepSpeed's step, throughput, loss-scale and memory lines (runtime/engine.py, utils/timer.py, 0.5 to 0.19)."""

import re

from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.numbers import count, finite, number
from oncall.formats.outcome import Near, Outcome, event

_HEAD = re.compile(
    r"(?:\[(?P<date>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)(?:,(?P<ms>\d+))?\] )?"
    r"(?:\[[A-Z]+\] )?(?:\[[\w./-]+:\d+:\w+\] )?"
    r"(?:\[Rank (?P<rank>\d+)\] )?"
)
_STEP = re.compile(r"^step=(?P<step>\d+), skipped=(?P<skipped>\d+), lr=\[(?P<lr>[^,\]]+)")
_PIPELINE = re.compile(
    r"^steps: (?P<step>\d+) loss: (?P<loss>\S+) iter time \(s\): (?P<time>\S+) samples/sec: (?P<rate>\S+)"
)
_THROUGHPUT = re.compile(
    r"^(?:epoch=(?P<epoch>\d+)/micro_step=(?P<micro>\d+)/global_step=(?P<global>\d+)|"
    r"(?P<old_epoch>\d+)/(?P<old_step>\d+)), "
    r"(?P<rest>.*SamplesPerSec=.*)"
)
_OVERFLOW = re.compile(
    r"overflow!(?: Rank (?P<rank>\d+))? Skipping step\. Attempted loss scale: (?P<old>[\d.e+]+)"
    r"(?:, reducing to (?P<new>[\d.e+]+))?",
    re.IGNORECASE,
)
_FLUSHES = re.compile(r"^(\d+) pytorch allocator cache flushes")
_VOICE = re.compile(r"\[(?:INFO|WARNING|ERROR)\] \[[\w./-]+:\d+:\w+\]")


def _throughput(line: Line, log: Log, common: dict[str, Json], found: re.Match[str]) -> Outcome:
    said = dict(part.split("=", 1) for part in found["rest"].split(", ") if "=" in part)
    rate = said.get("CurrSamplesPerSec", said.get("SamplesPerSec"))
    return event(
        "throughput",
        line,
        log,
        **common,
        epoch=count(found["epoch"] or found["old_epoch"]),
        micro_step=count(found["micro"]),
        step=count(found["global"] or found["old_step"]),
        samples_per_s=finite(rate),
        samples_per_s_avg=finite(said.get("RunningAvgSamplesPerSec")),
        mem_gb=finite(said.get("MemAllocated")),
        max_mem_gb=finite(said.get("MaxMemAllocated")),
    )


def _common(line: Line, log: Log, head: re.Match[str]) -> dict[str, Json]:
    fraction = f".{head['ms']}" if head["ms"] else ""
    spoken = count(head["rank"])
    tagged = line.rank if line.rank is not None else log.rank
    return {
        "framework": "deepspeed",
        "ts": f"{head['date']}T{head['time']}{fraction}" if head["date"] else None,
        "rank": spoken if spoken is not None else tagged,
    }


def _step(line: Line, log: Log, common: dict[str, Json], found: re.Match[str]) -> Outcome:
    return event(
        "step",
        line,
        log,
        **common,
        step=count(found["step"]),
        skipped_total=count(found["skipped"]),
        lr=number(found["lr"]),
        loss=None,
        step_time_s=None,
    )


def _pipeline_step(line: Line, log: Log, common: dict[str, Json], found: re.Match[str]) -> Outcome:
    return event(
        "step",
        line,
        log,
        **common,
        step=count(found["step"]),
        loss=number(found["loss"]),
        step_time_s=finite(found["time"]),
        samples_per_s=finite(found["rate"]),
    )


def _overflow(line: Line, log: Log, common: dict[str, Json], found: re.Match[str]) -> Outcome:
    fields = common | ({"rank": count(found["rank"])} if found["rank"] else {})
    scales = {"attempted_scale": number(found["old"].rstrip(".")), "new_scale": number(found["new"])}
    return event("loss_scale_overflow", line, log, **fields, **scales)


def _flushes(line: Line, log: Log, common: dict[str, Json], found: re.Match[str]) -> Outcome:
    return event("allocator_flushes", line, log, **common, count=count(found[1]))


_RULES = (
    (_STEP, _step),
    (_PIPELINE, _pipeline_step),
    (_THROUGHPUT, _throughput),
    (_OVERFLOW, _overflow),
    (_FLUSHES, _flushes),
)


def read_deepspeed_line(line: Line, log: Log) -> Outcome:
    """Read one DeepSpeed line; `step` is the optimizer's (global) step, never the micro step."""
    head = _HEAD.match(line.text)
    assert head is not None, "every part of the head is optional"
    text = line.text[head.end() :]
    for pattern, read in _RULES:
        if found := pattern.search(text):
            return read(line, log, _common(line, log, head), found)
    return Near.MISS if _VOICE.search(line.text) or "iter time (s)" in text else None
