"""What the Hugging Face Trainer prints: metric dicts, and the tqdm bar with the step (transformers 4.x and 5.x)."""

import re

from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.numbers import finite, number
from oncall.formats.outcome import Near, Outcome, event

_DICT = re.compile(r"\{(?P<items>'[^{}]*)\}")
_ITEM = re.compile(r"'(?P<key>[^']+)': (?:'(?P<quoted>[^']*)'|(?P<bare>[^,}]+))")
_METRIC = re.compile(r"\{'(?:\w+_)?loss'|\{'[^{}]*'epoch': ")
_BAR = re.compile(
    r"(?P<pct>\d{1,3})%\|[^|]*\| (?P<step>\d+)/(?P<total>\d+) \[(?P<elapsed>[\d:]+)"
    r"<[^,]*, +(?P<rate>[\d.]+|\?)(?P<unit>s/it|it/s)"
)


def _seconds(clock: str) -> int:
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part or 0)
    return total


def read_progress_bar(line: Line, log: Log) -> Outcome:
    """Read the newest state of a tqdm bar on the line; a bar redraws itself after each carriage return."""
    states = list(_BAR.finditer(line.text))
    if not states:
        return None
    found = states[-1]
    rate = finite(found["rate"])
    slow = found["unit"] == "s/it"
    return event(
        "progress_bar",
        line,
        log,
        rank=line.rank if line.rank is not None else log.rank,
        pct=int(found["pct"]),
        step=int(found["step"]),
        total_steps=int(found["total"]),
        elapsed_s=_seconds(found["elapsed"]),
        s_per_it=rate if slow else None,
        it_per_s=None if slow else rate,
    )


def _metrics(items: str) -> dict[str, Json]:
    pairs = _ITEM.finditer(items)
    return {pair["key"]: number(pair["quoted"] if pair["quoted"] is not None else pair["bare"]) for pair in pairs}


def read_hf_dict(line: Line, log: Log) -> Outcome:
    """Read a dict of metrics. It is taken apart by hand: 4.x prints a bare `nan`, 5.x prints every number in quotes."""
    found = _DICT.search(line.text)
    said = _metrics(found["items"]) if found else {}
    common: dict[str, Json] = {
        "framework": "hf",
        "rank": line.rank if line.rank is not None else log.rank,
        "step": None,
        "epoch": said.get("epoch"),
    }
    if "train_runtime" in said:
        rate = said.get("train_steps_per_second")
        ended: dict[str, Json] = {"runtime_s": said["train_runtime"], "loss": said.get("train_loss")}
        return event("train_end", line, log, **common, **ended, steps_per_s=rate)
    if "eval_loss" in said:
        return event("validation", line, log, **common, loss=said["eval_loss"], runtime_s=said.get("eval_runtime"))
    if "loss" in said and "epoch" in said:
        told: dict[str, Json] = {"grad_norm": said.get("grad_norm"), "lr": said.get("learning_rate")}
        return event("step", line, log, **common, loss=said["loss"], **told, step_time_s=None)
    return Near.MISS if _METRIC.search(line.text) else None
