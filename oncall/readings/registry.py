"""All readings by name, each with the evidence it needs and the verdicts it may give."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oncall.readings.alive import alive
from oncall.readings.attempts import attempts
from oncall.readings.case import Case
from oncall.readings.checkpoint_age import checkpoint_age
from oncall.readings.collective import collective
from oncall.readings.data_share import data_share
from oncall.readings.failure_pattern import failure_pattern
from oncall.readings.fault_meaning import fault_meaning
from oncall.readings.fault_place import fault_place
from oncall.readings.few_or_all import few_or_all
from oncall.readings.finding import UNKNOWN, Judgement
from oncall.readings.fragmentation import fragmentation
from oncall.readings.gpu_state import gpu_faults, gpu_state
from oncall.readings.hardware import hardware
from oncall.readings.host_memory import host_memory
from oncall.readings.host_pressure import host_pressure
from oncall.readings.kernel_signs import kernel_signs, silent_storage
from oncall.readings.links import links
from oncall.readings.log_volume import log_volume
from oncall.readings.loss import loss
from oncall.readings.nan_position import nan_position
from oncall.readings.numerics import numerics
from oncall.readings.ports import ports
from oncall.readings.program_fault import program_fault
from oncall.readings.progress import progress
from oncall.readings.ras import ras
from oncall.readings.remainder import remainder
from oncall.readings.restarts import restarts
from oncall.readings.saver import saver
from oncall.readings.self_stop import self_stop
from oncall.readings.slowness import slowness
from oncall.readings.software import software
from oncall.readings.standings import standings
from oncall.readings.storage import storage
from oncall.readings.suspect_stacks import suspect_stacks
from oncall.readings.throttling import throttling
from oncall.readings.watchdog import watchdog


@dataclass(frozen=True, slots=True)
class Reading:
    """A pure function from evidence to a verdict. `needs` names probes; `verdicts` always holds `unknown`."""

    name: str
    needs: tuple[str, ...]
    verdicts: tuple[str, ...]
    judge: Callable[[Case], Judgement]


def _reading(
    name: str, judge: Callable[[Case], Judgement], *, needs: tuple[str, ...], verdicts: tuple[str, ...]
) -> Reading:
    return Reading(name, needs, (*verdicts, UNKNOWN), judge)


_SERIES = ("metrics", "baseline")

_ALL = (
    _reading("progress", progress, needs=("logs",), verdicts=("moving", "stopped")),
    _reading("restarts", restarts, needs=("processes", "logs"), verdicts=("restarting", "steady")),
    _reading(
        "alive",
        alive,
        needs=("processes", "logs"),
        verdicts=("all-alive", "gone", "stopped", "blocked", "job-gone"),
    ),
    _reading("watchdog", watchdog, needs=("logs", "dumps"), verdicts=("timed-out", "dumped", "quiet")),
    _reading(
        "collective",
        collective,
        needs=("flight_recorder", "processes"),
        verdicts=("absent", "mismatch", "order", "no-dump", "gpu", "all-joined", "no-fault"),
    ),
    _reading(
        "standings",
        standings,
        needs=("stacks",),
        verdicts=("few-elsewhere", "initialisation", "all-in-data", "all-wait", "all-at-start", "spread"),
    ),
    _reading("suspect-stacks", suspect_stacks, needs=("stacks",), verdicts=("data", "host", "waiting")),
    _reading("hardware", hardware, needs=("kernel", "gpus", "logs"), verdicts=("fault", "clear")),
    _reading("slowness", slowness, needs=_SERIES, verdicts=("slower", "steady", "stalled")),
    _reading("few-or-all", few_or_all, needs=_SERIES, verdicts=("few", "all")),
    _reading("throttling", throttling, needs=_SERIES, verdicts=("suspect", "clear")),
    _reading("links", links, needs=_SERIES, verdicts=("suspect", "clear")),
    _reading(
        "software", software, needs=(*_SERIES, "stack_samples"), verdicts=("suspect", "clear", "nobody-suspected")
    ),
    _reading("data-share", data_share, needs=_SERIES, verdicts=("suspect", "clear")),
    _reading("fragmentation", fragmentation, needs=_SERIES, verdicts=("suspect", "clear")),
    _reading("log-volume", log_volume, needs=_SERIES, verdicts=("suspect", "clear")),
    _reading("host-memory", host_memory, needs=_SERIES, verdicts=("suspect", "clear")),
    _reading("remainder", remainder, needs=_SERIES, verdicts=("all-clear",)),
    _reading(
        "program-fault",
        program_fault,
        needs=("kernel", "gpus", "processes", "logs"),
        verdicts=("program", "memory", "clear"),
    ),
    _reading("fault-place", fault_place, needs=("processes",), verdicts=("in-run", "idle")),
    _reading("fault-meaning", fault_meaning, needs=("kernel", "logs"), verdicts=("leave", "restart", "uncatalogued")),
    _reading(
        "gpu-state",
        gpu_state,
        needs=("gpu_health",),
        verdicts=("hung", "memory", "remap-pending", "held-down", "links", "fine"),
    ),
    _reading("gpu-faults", gpu_faults, needs=("gpu_health",), verdicts=("fault", "none")),
    _reading("kernel-signs", kernel_signs, needs=("kernel", "gpus"), verdicts=("trouble", "mild", "none")),
    _reading("silent-storage", silent_storage, needs=("kernel", "logs"), verdicts=("silent", "none")),
    _reading("ports", ports, needs=("fabric",), verdicts=("down", "slow", "errors", "fine")),
    _reading("ras", ras, needs=("nccl_ras",), verdicts=("lost", "failed", "behind", "moving", "all-launched")),
    _reading("host-pressure", host_pressure, needs=("host",), verdicts=("memory", "storage", "blocked", "fine")),
    _reading("attempts", attempts, needs=("logs", "processes"), verdicts=("loop", "single", "none")),
    _reading(
        "failure-pattern",
        failure_pattern,
        needs=("logs",),
        verdicts=("same-step", "same-host", "same-error", "different"),
    ),
    _reading("loss", loss, needs=("logs",), verdicts=("not-finite", "recurring", "finite")),
    _reading("self-stop", self_stop, needs=("logs", "processes"), verdicts=("stopped", "going-on")),
    _reading("nan-position", nan_position, needs=("logs",), verdicts=("same-position", "other-position", "first-time")),
    _reading("numerics", numerics, needs=("logs",), verdicts=("logits-grew", "gradients-grew", "scale-fell", "sudden")),
    _reading("storage", storage, needs=("storage",), verdicts=("silent", "full", "unwritable", "fine")),
    _reading("saver", saver, needs=("logs", "storage"), verdicts=("failed", "writing", "stuck", "gone", "idle")),
    _reading(
        "checkpoint-age",
        checkpoint_age,
        needs=("logs", "storage"),
        verdicts=("fresh", "overdue", "missed", "none"),
    ),
)

READINGS: Mapping[str, Reading] = {reading.name: reading for reading in _ALL}
"""Name → reading."""
