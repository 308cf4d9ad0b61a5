"""Everything that a training process or its launcher writes to stdout and stderr, read in one pass."""

from dataclasses import replace

from oncall.formats.elastic import read_elastic_line, read_slurm_line
from oncall.formats.event import Event, Parsed
from oncall.formats.gloo import read_gloo_error
from oncall.formats.lines import Log
from oncall.formats.nccl import read_nccl_line
from oncall.formats.nccl_blocks import read_nccl_error
from oncall.formats.nccl_warn import read_nccl_warn
from oncall.formats.outcome import Near, Reader
from oncall.formats.steps import ANCHORS as STEP_ANCHORS
from oncall.formats.steps import READERS as STEP_READERS

ANCHORS: dict[bytes, str] = {
    b"ProcessGroup": "nccl",
    b"FlightRecorder": "nccl",
    b"Rank ": "nccl",
    b"DistBackendError": "nccl-error",
    b"NCCL WARN": "nccl-warn",
    b"/gloo/": "gloo",
    b"distributed/elastic": "elastic",
    b"distributed.elastic": "elastic",
    b"Root Cause (first": "elastic",
    b"srun: error": "slurm",
    b"slurmstepd: error": "slurm",
} | STEP_ANCHORS
"""Bytes that a line must hold to be decoded at all, and the reader that gets it. Wider than the rules behind them."""

READERS: dict[str, Reader] = {
    "nccl": read_nccl_line,
    "nccl-error": read_nccl_error,
    "nccl-warn": read_nccl_warn,
    "gloo": read_gloo_error,
    "elastic": read_elastic_line,
    "slurm": read_slurm_line,
} | STEP_READERS


def _name_repeats(events: list[Event]) -> list[Event]:
    """Fill `repeats_line` of each `watchdog_terminated`: the first line that told the same time-out.

    The same time-out is said up to five times; the `[Rank r]` and the sequence number inside the quoted text tie them.
    """
    told: dict[tuple[int | None, int | None], Event] = {}
    for each in events:
        if each.kind == "nccl_timeout":
            told.setdefault((each.number("rank"), each.number("seq")), each)
    named = []
    for each in events:
        if each.kind == "watchdog_terminated" and each.number("seq") is not None:
            origin = told.get((each.number("spoken_rank"), each.number("seq")))
            fields = {**each.fields, "repeats_line": origin.first_line if origin else None}
            named.append(replace(each, fields=fields))
        else:
            named.append(each)
    return named


def read_torchrun(data: bytes, name: str, *, rank: int | None = None) -> Parsed:
    """Read a training process's log: watchdog, NCCL, torchrun agent and step lines, in line order.

    `rank` is the global rank that the file belongs to, when its place tells that; a rank named in a line wins over it.
    """
    log = Log(data, name, rank)
    events: list[Event] = []
    unrecognised: list[int] = []
    done = 0
    for line, names in log.candidates(ANCHORS):
        if line.number <= done:
            continue
        outcomes = [READERS[each](line, log) for each in sorted(names)]
        found = [each for each in outcomes if isinstance(each, Event)]
        events += found
        done = max([done, *(each.last_line for each in found)])
        if not found and Near.MISS in outcomes:
            unrecognised.append(line.number)
    return Parsed(tuple(_name_repeats(events)), tuple(unrecognised))
