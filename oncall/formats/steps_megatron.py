"""Megatron-LM's training log: iteration, validation, checkpoint, straggler and exit lines.

Printed by megatron/training/{training,checkpointing}.py and core/utils.py, v2.5 to core 0.19. Order and number of
the fields change with each version, so a line is split at `|` and each part at its last `:`.
"""

import re

from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.numbers import count, finite, number
from oncall.formats.outcome import Near, Outcome, event

_STAMP = r"\s*(?:\[(?P<date>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?)\] ?)?\s*"
_ITERATION = re.compile(_STAMP + r"iteration\s+(?P<step>\d+)/\s*(?P<total>\d+) \|(?P<rest>.*)")
_ITERATION_LIKE = re.compile(_STAMP + r"iteration\s*:?\s*\d+\s*(?:/|\||of\b)")
_LIKE = re.compile(
    r"\| consumed samples:|\bat iteration \d+ \||\bcheckpoint\b.* to /|\biteration\s+\d+ to /|^\s*\[[^\]]*\] datetime: "
)
_VALIDATION = re.compile(r"\s*validation loss at iteration (?P<step>\d+)[^|]*\|(?P<rest>.*)")
_VALUE_PAIR = re.compile(r"(?P<name>.+?)(?: (?P<what>value|PPL))?$")
_CHECKPOINT = re.compile(
    _STAMP + r"(?P<verb>saving checkpoint at|scheduled an async checkpoint save at|successfully saved checkpoint from)"
    r" iteration\s+(?P<step>\d+) to (?P<path>\S+)(?: in (?P<format>\S+) format)?"
)
_CHECKPOINT_KINDS = {
    "saving": "checkpoint_start",
    "scheduled": "checkpoint_scheduled",
    "successfully": "checkpoint_done",
}
_EXIT = re.compile(r"\s*\[(?P<reason>exiting program[^\]]*)\] datetime: (?P<date>\d{4}-\d\d-\d\d) (?P<time>[\d:.]+)")
_RERUN = re.compile(
    r"Unexpected result (?P<value>\S+) on rank (?P<rank>\d+) at iteration #(?P<step>\d+) invocation #\d+"
    r"(?: \(message='(?P<message>.*)'\))?"
)

_FIELDS = {
    "consumed samples": "consumed_samples",
    "skipped samples": "skipped_samples",
    "throughput per GPU (TFLOP/s/GPU)": "tflops_per_gpu",
    "energy per GPU (J/iter/GPU)": "energy_j_per_iter",
    "power per GPU (W/GPU)": "power_w",
    "learning rate": "lr",
    "decoupled learning rate": "decoupled_lr",
    "global batch size": "global_batch_size",
    "loss scale": "loss_scale",
    "grad norm": "grad_norm",
    "num zeros": "num_zeros",
    "params norm": "params_norm",
    "number of skipped iterations": "skipped",
    "number of nan iterations": "nan",
}
_STEP_TIME = "elapsed time per iteration (ms)"


def _stamp(found: re.Match[str]) -> str | None:
    return f"{found['date']}T{found['time']}" if found["date"] else None


def _pairs(text: str) -> list[tuple[str, str]]:
    cut = (part.rpartition(":") for part in text.split("|"))
    return [(name.strip(), value.strip()) for name, colon, value in cut if colon]


def _iteration(line: Line, log: Log, found: re.Match[str]) -> Outcome:
    fields: dict[str, Json] = dict.fromkeys(_FIELDS.values())
    losses: dict[str, Json] = {}
    moe: dict[str, Json] = {}
    step_time: float | None = None
    for name, text in _pairs(found["rest"]):
        value = number(text)
        if name in _FIELDS:
            fields[_FIELDS[name]] = value
        elif name == _STEP_TIME:
            milliseconds = finite(text)
            step_time = None if milliseconds is None else milliseconds / 1000
        elif isinstance(value, str) or "E" in text.upper():
            losses[name] = value
        else:
            # Losses have an exponent; mixture-of-experts metrics share their place but are printed with two decimals.
            moe[name] = value
    if step_time is None and fields["consumed_samples"] is None:
        return Near.MISS
    step = int(found["step"])
    return event(
        "step",
        line,
        log,
        framework="megatron",
        rank=line.rank if line.rank is not None else log.rank,
        ts=_stamp(found),
        step=step,
        total_steps=int(found["total"]),
        step_time_s=step_time,
        loss=losses.get("lm loss", next(iter(losses.values()), None)),
        losses=losses or None,
        moe=moe or None,
        warmup=step == 1,
        **fields,
    )


def _validation(line: Line, log: Log, found: re.Match[str]) -> Outcome:
    losses: dict[str, Json] = {}
    perplexities: dict[str, Json] = {}
    for name, text in _pairs(found["rest"]):
        pair = _VALUE_PAIR.match(name)
        if pair is not None:
            (perplexities if pair["what"] == "PPL" else losses)[pair["name"]] = number(text)
    return event(
        "validation",
        line,
        log,
        framework="megatron",
        step=int(found["step"]),
        losses=losses or None,
        ppl=perplexities or None,
    )


def read_megatron_line(line: Line, log: Log) -> Outcome:
    """Read one line of the main log; a line that counts iterations in other words is a near miss."""
    text = line.text
    if found := _ITERATION.match(text):
        return _iteration(line, log, found)
    if found := _VALIDATION.match(text):
        return _validation(line, log, found)
    if found := _CHECKPOINT.match(text):
        kind = _CHECKPOINT_KINDS[found["verb"].split()[0]]
        return event(
            kind,
            line,
            log,
            framework="megatron",
            ts=_stamp(found),
            step=int(found["step"]),
            path=found["path"],
            format=found["format"],
        )
    if found := _EXIT.match(text):
        return event("exit", line, log, reason=found["reason"], ts=_stamp(found))
    return Near.MISS if _ITERATION_LIKE.match(text) or _LIKE.search(text) else None


def read_rerun_line(line: Line, log: Log) -> Outcome:
    """Read the rerun state machine's word on a result that it did not expect (core 0.10 on)."""
    if found := _RERUN.search(line.text):
        return event(
            "rerun_unexpected",
            line,
            log,
            rank=count(found["rank"]),
            step=count(found["step"]),
            value=number(found["value"]),
            message=found["message"],
        )
    return Near.MISS if line.text.startswith("ERROR:") else None
