"""Is the clock of a suspect's GPU held down, and by what?"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncall.flight_recorder.model import Grade
from oncall.readings.believed import any_bit
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.measured import Measured, measure, typical
from oncall.readings.series_join import Subject
from oncall.readings.suspected import suspected_ranks
from oncall.run.nodes import fold_ranks
from oncall.signals.hardware_signals import CLOCKS_EVENT_REASONS

_IDLE = 0x001
_ALARMING = 0x008 | 0x020 | 0x040 | 0x080
"""Slowdowns that no healthy GPU reports under load; a power cap is everyday, and counts only with a low clock."""

_LOW = 0.9
_MOST_NAMED = 8


@dataclass(frozen=True)
class _Gpu:
    rank: int
    clock: float | None
    usual: float | None
    reasons: int | None

    @property
    def low(self) -> bool:
        return self.clock is not None and self.usual is not None and self.clock < _LOW * self.usual

    @property
    def idle(self) -> bool:
        return self.reasons is not None and bool(self.reasons & _IDLE)

    @property
    def throttled(self) -> bool:
        alarmed = self.reasons is not None and bool(self.reasons & _ALARMING)
        return (self.low and not self.idle) or (alarmed and (self.low or self.clock is None))


def throttling(case: Case) -> Judgement:
    """Are GPUs held down, those of the suspects where there are suspects?

    `suspect`: a GPU's clock is under 0.9 of what it was before, or of the median of all where that is not known, though
    it is not idle. `clear`: none is. `unknown`: the clock of a suspect is not known.
    """
    clocks, reasons = measure(case, "sm_clock"), measure(case, "clocks_event_reasons", several=any_bit)
    ranks = suspected_ranks(case) or case.ranks.ranks
    if not ranks:
        return unknown(clocks.lacks(()) or "which ranks there are is not known")
    usual = _usual(clocks)
    gpus = [_gpu(rank, clocks, reasons, usual) for rank in sorted(ranks)]
    throttled = [gpu for gpu in gpus if gpu.throttled]
    if throttled:
        findings = tuple(_finding(case, gpu, clocks) for gpu in throttled)
        shown = "; ".join(finding.text for finding in findings[:_MOST_NAMED])
        return Judgement(verdict="suspect", reason=shown, findings=findings)
    lacking = clocks.lacks(ranks)
    if lacking is None and any(gpu.usual is None for gpu in gpus):
        lacking = "nothing to hold the clocks against, neither before nor on other GPUs"
    if lacking is not None:
        return unknown(lacking)
    return Judgement(verdict="clear", reason=_clear(gpus))


def clock_limits(case: Case) -> Mapping[Subject, float]:
    """The clock in MHz under which each rank's GPU counts as held down; without those that nothing is known of."""
    clocks = measure(case, "sm_clock")
    return {who: _LOW * usual for who, usual in _usual(clocks).items()}


def _usual(clocks: Measured) -> dict[Subject, float]:
    """What each clock was before; where that is not known, what the others have."""
    of_all = typical(clocks.now) if len(clocks.now) > 1 else None
    known = {who: clocks.before.get(who) or of_all for who in clocks.now}
    return {who: usual for who, usual in known.items() if usual}


def _gpu(rank: int, clocks: Measured, reasons: Measured, usual: Mapping[Subject, float]) -> _Gpu:
    told = reasons.now.get(rank)
    return _Gpu(rank, clocks.now.get(rank), usual.get(rank), None if told is None else int(told))


def _clear(gpus: list[_Gpu]) -> str:
    clocks = [gpu.clock for gpu in gpus if gpu.clock is not None]
    ranks = fold_ranks(gpu.rank for gpu in gpus)
    return f"SM clock {min(clocks):,.0f} to {max(clocks):,.0f} MHz on ranks {ranks}, as usual"


def reason_words(bits: int) -> str:
    """The names of the reasons that a bit mask holds, `none` where it holds none."""
    names = [name for bit, name in CLOCKS_EVENT_REASONS.items() if bits & bit]
    unnamed = bits & ~sum(CLOCKS_EVENT_REASONS)
    return ", ".join([*names, *([f"bits {unnamed:#x}"] if unnamed else [])]) or "none"


def _finding(case: Case, gpu: _Gpu, clocks: Measured) -> Finding:
    parts = []
    if gpu.clock is not None and gpu.usual is not None:
        was = "it was" if gpu.rank in clocks.before else "the others have"
        parts.append(f"SM clock {gpu.clock:,.0f} MHz, {was} {gpu.usual:,.0f}")
    told = "not known (no series)" if gpu.reasons is None else reason_words(gpu.reasons)
    parts.append(f"throttle reasons: {told}")
    for signal, unit in (("gpu_temp", "°C"), ("memory_temp", "°C in the HBM"), ("power", "W")):
        values: Mapping[int | str, float] = measure(case, signal).now
        if gpu.rank in values:
            parts.append(f"{values[gpu.rank]:.0f} {unit}")
    return Finding(
        kind="gpu_throttled",
        text=f"{case.name_ranks([gpu.rank])}: {', '.join(parts)}",
        role=Role.ORIGIN,
        grade=Grade.SURE if gpu.low and gpu.reasons else Grade.LIKELY,
        ranks=(gpu.rank,),
        hosts=case.ranks.hosts_of([gpu.rank]),
        cites=(Citation(probe="metrics", text=clocks.query),),
    )
