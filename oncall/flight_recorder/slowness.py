"""Finds the slow rank of a moving job: all ranks of a synchronous job take equally long, the slow one waits least."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import DumpSet

CLOCK_TOLERANCE_MS = 1.0
"""What clocks of one site may differ by under NTP; issue times closer than this are not put in order."""

_FEWEST_UNITS = 8
_FEWEST_IN_GROUP = 4
_MOST_SLOW = 2
_LAST_SHARE = 0.8
_WAIT_SHARE = 0.05
"""Share of an operation's own time that the others have to wait before lateness is more than jitter."""

Times = Mapping[int, Mapping[int, Mapping[int, float]]]
"""Group number → sequence number → rank → milliseconds."""


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank that its peers wait for: mean milliseconds per operation, over how many, and what showed it."""

    rank: int
    waited_ms: float
    operations: int
    basis: str


def slow_ranks(dumps: DumpSet, groups: Groups) -> tuple[SlowRank, ...]:
    """The ranks that all their groups wait for; empty when the job is even or the dumps cannot tell.

    With durations (`TORCH_NCCL_ENABLE_TIMING`) the last to join an operation has the shortest one. Without, the last to
    issue it is taken, corrected by each rank's own smallest lateness, which also removes a constant clock error.
    """
    timed = _durations(dumps, groups)
    if timed:
        return _always_last(timed, groups, dumps, "it waits least: its operations are the shortest")
    return _always_last(_issue_times(dumps, groups), groups, dumps, "it issues last")


def _durations(dumps: DumpSet, groups: Groups) -> Times:
    times: dict[int, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for rank, dump in dumps.dumps.items():
        for name, rows in dump.durations.items():
            if name in groups.of[rank]:
                for seq, ms in rows.items():
                    times[groups.of[rank][name]][seq][rank] = ms
    return times


def _issue_times(dumps: DumpSet, groups: Groups) -> Times:
    """How much earlier than the last member each rank issued, so that the last one has the smallest value."""
    issued: dict[int, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for rank, dump in dumps.dumps.items():
        for op in dump.ops:
            if op.peers is None and op.created_ns is not None:
                issued[groups.of[rank][op.group]][op.seq][rank] = op.created_ns / 1e6
    times: dict[int, dict[int, dict[int, float]]] = {}
    for group, units in issued.items():
        lateness = {seq: _after_median(ranks) for seq, ranks in units.items()}
        smallest: dict[int, float] = {}
        for ranks in lateness.values():
            for rank, late in ranks.items():
                smallest[rank] = min(late, smallest.get(rank, late))
        times[group] = {
            seq: {rank: -_beyond_clocks(late - smallest[rank]) for rank, late in ranks.items()}
            for seq, ranks in lateness.items()
        }
    return times


def _after_median(ranks: Mapping[int, float]) -> dict[int, float]:
    middle = median(ranks.values())
    return {rank: ms - middle for rank, ms in ranks.items()}


def _beyond_clocks(late: float) -> float:
    return late if late > CLOCK_TOLERANCE_MS else 0.0


def _always_last(times: Times, groups: Groups, dumps: DumpSet, basis: str) -> tuple[SlowRank, ...]:
    waits: dict[int, list[tuple[float, int]]] = defaultdict(list)
    cleared: set[int] = set()
    for group in _comparable(times, groups, dumps):
        members = groups.known[group].ranks
        units = [ranks for ranks in times[group].values() if len(ranks) == len(members) and _somebody_waits(ranks)]
        if len(units) < _FEWEST_IN_GROUP:
            continue
        for rank in members:
            wait = _waited_for(rank, units)
            if wait is None:
                cleared.add(rank)
            else:
                waits[rank].append((wait, len(units)))
    left = {r: rows for r, rows in waits.items() if r not in cleared and sum(n for _, n in rows) >= _FEWEST_UNITS}
    # Delay is passed on to other pipeline stages, but only the slow rank is clearly late in all of its own groups.
    most = max((len(rows) for rows in left.values()), default=0)
    weakest = {rank: min(ms * count for ms, count in rows) for rank, rows in left.items() if len(rows) == most}
    found = [
        SlowRank(rank, fmean(ms for ms, _ in left[rank]), sum(count for _, count in left[rank]), basis)
        for rank, wait in weakest.items()
        if wait >= max(weakest.values()) / 2
    ]
    return tuple(sorted(found, key=lambda slow: -slow.waited_ms)) if len(found) <= _MOST_SLOW else ()


def _somebody_waits(ranks: Mapping[int, float]) -> bool:
    shortest, longest = min(ranks.values()), max(ranks.values())
    return longest - shortest > _WAIT_SHARE * abs(shortest)


def _waited_for(rank: int, units: Sequence[Mapping[int, float]]) -> float | None:
    """How long the others wait for this rank on average; None when it is not nearly always the last to join."""
    others = [fmean(ms for other, ms in ranks.items() if other != rank) for ranks in units]
    last = sum(ranks[rank] <= min(ranks.values()) for ranks in units)
    if last < _LAST_SHARE * len(units):
        return None
    return fmean(mean - ranks[rank] for mean, ranks in zip(others, units, strict=True))


def _comparable(times: Times, groups: Groups, dumps: DumpSet) -> list[int]:
    """Groups whose members run one program: no pipelines, and the world only where no smaller group exists."""
    pipelines = {groups.of[r][op.group] for r, d in dumps.dumps.items() for op in d.ops if op.peers is not None}
    sized = [group for group in times if group not in pipelines and len(groups.known[group].ranks) > 1]
    smaller = [group for group in sized if len(groups.known[group].ranks) < len(groups.world)]
    return smaller or sized
