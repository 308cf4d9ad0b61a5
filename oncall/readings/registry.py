"""All readings by name, each with the evidence it needs and the verdicts it may give."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oncall.readings.alive import alive
from oncall.readings.case import Case
from oncall.readings.collective import collective
from oncall.readings.data_share import data_share
from oncall.readings.few_or_all import few_or_all
from oncall.readings.finding import UNKNOWN, Judgement
from oncall.readings.fragmentation import fragmentation
from oncall.readings.hardware import hardware
from oncall.readings.host_memory import host_memory
from oncall.readings.links import links
from oncall.readings.log_volume import log_volume
from oncall.readings.progress import progress
from oncall.readings.remainder import remainder
from oncall.readings.restarts import restarts
from oncall.readings.slowness import slowness
from oncall.readings.software import software
from oncall.readings.standings import standings
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
    _reading("hardware", hardware, needs=("kernel", "gpus"), verdicts=("fault", "clear")),
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
)

READINGS: Mapping[str, Reading] = {reading.name: reading for reading in _ALL}
"""Name → reading."""
