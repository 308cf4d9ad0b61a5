"""torchtitan's metric and checkpoint lines (torchtitan/components/metrics.py and checkpoint.py, v0.1 to 2026-08)."""

import re

from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.numbers import count, finite, number
from oncall.formats.outcome import Near, Outcome, event

_HEAD = re.compile(
    r"(?:\[\w+\] )?(?:(?P<date>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)(?:,(?P<ms>\d+))? - \S+ - [A-Z]+ - )?"
)
_STEP = re.compile(r"(?P<kind>validate )?step:\s+(?P<step>\d+)\s+loss:\s+(?P<loss>\S+)(?P<rest>.*)")
_FIELD = re.compile(r"(\w+):\s+(\S+)")
_MEMORY = re.compile(r"(?P<gib>[\d.,]+)GiB\((?P<pct>[\d.]+)%\)")
_RETRIES = re.compile(r"(\d+) CUDA memory allocation retries")
_SAVED = re.compile(r"Finished saving the checkpoint.*?\bin (?P<seconds>[\d.]+) second")
_LIKE = re.compile(r"\bstep: |\btps: |(?:sav|stag)\w+ .*checkpoint|CUDA memory \w+ retr", re.IGNORECASE)

NO_LOSS = -1.0
"""What a pipeline stage without the loss prints (torchtitan/train.py)."""


def _stamp(text: str) -> tuple[str | None, str]:
    head = _HEAD.match(text)
    if head is None or not head["date"]:
        return None, text[head.end() :] if head else text
    fraction = f".{head['ms']}" if head["ms"] else ""
    return f"{head['date']}T{head['time']}{fraction}", text[head.end() :]


def _step(line: Line, log: Log, ts: str | None, found: re.Match[str]) -> Outcome:
    said = dict(_FIELD.findall(found["rest"]))
    memory = _MEMORY.match(said.get("memory", ""))
    raw = number(found["loss"])
    if raw is None or not said.keys() & {"memory", "tps", "tflops"}:
        return Near.MISS
    fields: dict[str, Json] = {
        "framework": "torchtitan",
        "ts": ts,
        "rank": line.rank if line.rank is not None else log.rank,
        "rank_prefix": line.rank,
        "step": int(found["step"]),
        "loss": None if raw == NO_LOSS else raw,
        "loss_raw": raw,
        "mem_gib": finite(memory["gib"]) if memory else None,
        "mem_pct": finite(memory["pct"]) if memory else None,
        "tps": number(said.get("tps")),
    }
    if found["kind"]:
        return event("validation", line, log, **fields)
    return event(
        "step",
        line,
        log,
        **fields,
        grad_norm=number(said.get("grad_norm")),
        step_time_s=None,
        tflops_per_gpu=number(said.get("tflops")),
        mfu_pct=finite(said.get("mfu")),
    )


def read_torchtitan_line(line: Line, log: Log) -> Outcome:
    """Read one line of torchtitan's log. No step time is printed: it follows from the stamps of neighbouring lines."""
    ts, text = _stamp(line.text)
    if found := _STEP.match(text):
        return _step(line, log, ts, found)
    if found := _RETRIES.match(text):
        return event("cuda_alloc_retries", line, log, ts=ts, count=count(found[1]))
    if text.startswith("Saving the checkpoint"):
        return event("checkpoint_start", line, log, framework="torchtitan", ts=ts, step=None, path=None, format=None)
    if found := _SAVED.match(text):
        return event(
            "checkpoint_done",
            line,
            log,
            framework="torchtitan",
            ts=ts,
            step=None,
            path=None,
            seconds=finite(found["seconds"]),
        )
    return Near.MISS if ts is not None and _LIKE.search(text) else None
