"""The step lines of the training frameworks: which bytes lead to which reader."""

from oncall.formats.outcome import Reader
from oncall.formats.steps_deepspeed import read_deepspeed_line
from oncall.formats.steps_hf import read_hf_dict, read_progress_bar
from oncall.formats.steps_megatron import read_megatron_line, read_rerun_line
from oncall.formats.steps_timers import read_straggler_line, read_timer_block, read_timer_line
from oncall.formats.steps_torchtitan import read_torchtitan_line

ANCHORS: dict[bytes, str] = {
    b"iteration ": "megatron",
    b"consumed samples:": "megatron",
    b"] datetime:": "megatron",
    b"rerun_state_machine": "rerun",
    b"time (ms) |": "timer",
    b"across ranks (ms)": "timers",
    b"/Rnk:": "straggler",
    b"Ranks with": "straggler",
    b"step:": "torchtitan",
    b"allocation retries": "torchtitan",
    b"the checkpoint": "torchtitan",
    b"step=": "deepspeed",
    b"SamplesPerSec=": "deepspeed",
    b"iter time (s)": "deepspeed",
    b"Attempted loss scale": "deepspeed",
    b"allocator cache flushes": "deepspeed",
    b"{'": "hf",
    b"s/it": "bar",
    b"it/s": "bar",
}
"""Bytes that a step line must hold, and the reader that gets it."""

READERS: dict[str, Reader] = {
    "megatron": read_megatron_line,
    "rerun": read_rerun_line,
    "timer": read_timer_line,
    "timers": read_timer_block,
    "straggler": read_straggler_line,
    "torchtitan": read_torchtitan_line,
    "deepspeed": read_deepspeed_line,
    "hf": read_hf_dict,
    "bar": read_progress_bar,
}
