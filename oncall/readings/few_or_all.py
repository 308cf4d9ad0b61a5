"""Do a few ranks hold up the others, or is everyone slower?

The ranks of a synchronous job all show the same step time. What tells them apart is where the step goes: the rank that
the others wait for spends longer in its own phases, and waits least in those where all meet.
"""

import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.measured import Measured, measure, span_names, typical
from oncall.readings.series_join import Subject
from oncall.readings.slowness import slowdown_s
from oncall.run.nodes import fold_ranks

_MEETING = re.compile(r"comm|wait|sync|barrier|reduce|gather|collect|all_?to_?all", re.IGNORECASE)
"""Names of phases in which ranks wait for each other, such as torchtitan's `collect_dist_metrics` (v0.3.0)."""

_WHOLE_STEP = frozenset({"step"})
_LEAST_SHARE = 0.05
_PART_OF_SLOWDOWN = 0.3
_NEAR_WORST = 0.5
_MOST_OF_STEP = 2.0
"""A part and its step are medians of different steps: only what is well longer cannot be a part of it."""
_MOST_NAMED = 8


@dataclass(frozen=True)
class Phase:
    """Where a step's time goes, by rank, in seconds. In a `meeting` the rank to blame stands out by waiting least."""

    words: str
    measured: Measured
    meeting: bool


@dataclass(frozen=True)
class _Excess:
    rank: int
    seconds: float
    phase: Phase
    compared: bool


def phases(case: Case) -> tuple[Phase, ...]:
    """All phases that the run's signals tell of. What is longer than the step it is part of is set aside."""
    waits, data = measure(case, "comm_wait_s"), measure(case, "data_wait_s")
    spans = (
        Phase(name, measure(case, "span_seconds", name=name), _MEETING.search(name) is not None)
        for name in span_names(case)
        if name not in _WHOLE_STEP
    )
    steps = measure(case, "step_time_s")
    parts = (Phase("communication wait", waits, meeting=True), Phase("data wait", data, meeting=False), *spans)
    told = (
        *(replace(part, measured=_within(part.measured, steps)) for part in parts),
        Phase("step time", steps, False),
    )
    return tuple(phase for phase in told if phase.measured.now)


def _within(part: Measured, steps: Measured) -> Measured:
    """A part of a step without ranks of which it would be longer than steps are, theirs or most."""
    usual_s = typical(steps.now) or inf
    longest_s = {who: _MOST_OF_STEP * max(usual_s, steps.now.get(who, 0.0)) for who in part.now}
    odd = {who: f"{value:.3g} s are longer than a step" for who, value in part.now.items() if value > longest_s[who]}
    kept = {who: value for who, value in part.now.items() if who not in odd}
    return replace(part, now=kept, aside={**part.aside, **odd})


def few_or_all(case: Case) -> Judgement:
    """Do a few ranks hold up the others?

    `few`: some ranks' own part of a step takes 1.2 times the median, and the others wait for them. `all`: nobody stands
    out. `unknown`: no phase tells who waits for whom, or not of every rank.
    """
    step_s = typical(measure(case, "step_time_s").now)
    told = phases(case)
    if step_s is None or not told:
        return unknown(measure(case, "step_time_s").lacks(()) or "no step time")
    outliers = _outliers(case, told, step_s)
    ranks = case.ranks.ranks or frozenset(who for phase in told for who in phase.measured.now if isinstance(who, int))
    if outliers and 2 * len(outliers) <= len(ranks):
        return _few(case, outliers, ranks)
    meetings = [phase for phase in told if phase.meeting]
    if not meetings:
        return unknown(
            f"every rank shows about the same step time, {step_s:.3g} s, as the ranks of a synchronous job do; "
            "no span and no communication wait tells which of them waits least"
        )
    gaps = [lacking for phase in meetings if (lacking := phase.measured.lacks(ranks))]
    if len(gaps) == len(meetings):
        return unknown(f"no rank stands out, but not every one is known: {gaps[0]}")
    seen = ", ".join(phase.words for phase in told)
    return Judgement(verdict="all", reason=f"no rank stands out among {len(ranks)} in {seen}")


def _outliers(case: Case, told: tuple[Phase, ...], step_s: float) -> tuple[_Excess, ...]:
    """The ranks that keep the others waiting, the worst first, each with the phase that shows it best."""
    floor = _LEAST_SHARE * step_s
    slowdown = slowdown_s(case)
    if slowdown is not None and slowdown > 0:
        floor = max(floor, _PART_OF_SLOWDOWN * slowdown)
    worst: dict[int, _Excess] = {}
    for excess in (each for phase in told for each in _excesses(case, phase)):
        if excess.seconds >= floor and (excess.rank not in worst or excess.seconds > worst[excess.rank].seconds):
            worst[excess.rank] = excess
    ordered = sorted(worst.values(), key=lambda each: (-each.seconds, each.rank))
    return tuple(each for each in ordered if each.seconds >= _NEAR_WORST * ordered[0].seconds)


def _excesses(case: Case, phase: Phase) -> Iterator[_Excess]:
    """How far each rank is from the others on the side that makes them wait, beyond what it was before."""
    now, before = phase.measured.now, phase.measured.before
    factor = case.run.thresholds.straggler_factor
    middle = statistics.median(now.values())
    usual = statistics.median(before.values()) if before else None
    sign = -1.0 if phase.meeting else 1.0
    for who, value in now.items():
        apart = sign * (value - middle)
        stands_out = value * factor <= middle if phase.meeting else value >= factor * middle
        if not stands_out or not isinstance(who, int):
            continue
        known = usual is not None and who in before
        always = max(0.0, sign * (before[who] - usual)) if usual is not None and who in before else 0.0
        yield _Excess(who, apart - always, phase, known)


def _few(case: Case, outliers: tuple[_Excess, ...], ranks: frozenset[int]) -> Judgement:
    findings = [_finding(case, each) for each in outliers]
    chosen = {each.rank for each in outliers}
    victims = tuple(sorted(ranks - chosen))
    findings.append(
        Finding(
            kind="observation",
            text=f"ranks {fold_ranks(victims)} wait for them at every step",
            role=Role.VICTIM,
            ranks=victims,
            hosts=case.ranks.hosts_of(victims),
        )
    )
    shown = "; ".join(each.text for each in findings[: min(len(outliers), _MOST_NAMED)])
    more = f"; and {len(outliers) - _MOST_NAMED} more" if len(outliers) > _MOST_NAMED else ""
    return Judgement(verdict="few", reason=shown + more, findings=tuple(findings))


def _finding(case: Case, excess: _Excess) -> Finding:
    values: Mapping[Subject, float] = excess.phase.measured.now
    middle = statistics.median(values.values())
    verb = "waits least" if excess.phase.meeting else "is behind"
    text = (
        f"{case.name_ranks([excess.rank])} {verb}: {excess.phase.words} {values[excess.rank]:.3g} s, "
        f"median of all {middle:.3g} s"
    )
    return Finding(
        kind="straggler",
        text=text,
        role=Role.ORIGIN,
        grade=Grade.SURE if excess.compared else Grade.LIKELY,
        ranks=(excess.rank,),
        hosts=case.ranks.hosts_of([excess.rank]),
        cites=(Citation(probe="metrics", text=excess.phase.measured.query),),
    )
