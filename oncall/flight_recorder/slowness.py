"""Finds the slow rank of a moving job: all ranks of a synchronous job take equally long, the slow one waits least."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from oncall.flight_recorder.alike import Part, parts_alike
from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.issuing import constantly_late, issue_times
from oncall.flight_recorder.model import DumpSet
from oncall.run.nodes import fold_ranks, name_folded

_FEWEST_UNITS = 8
_FEWEST_IN_GROUP = 4
_MOST_SLOW = 2
_LAST_SHARE = 0.8
_WAIT_SHARE = 0.05
"""Share of an operation's own time that the others have to wait before lateness is more than jitter."""

_SLOW_SHARE = 0.02
"""Share of the time in a group's operations that waiting for one rank has to be."""

_HOST_JITTER_MS = 20.0
"""What Python and the scheduler of a busy host delay an issue by: 9 ms were seen in an even job of 4 ranks a core."""

_BY_DURATION = "it waits least: its operations are the shortest"
_BY_ISSUE = "it issues last"
_SET_TIMING = "TORCH_NCCL_ENABLE_TIMING=1 has durations recorded"
_HOSTS_ONLY = "issue times tell of hosts only, as operations are enqueued ahead of the GPU"

Times = Mapping[int, Mapping[int, Mapping[int, float]]]
"""Group number → sequence number → rank → milliseconds."""


@dataclass(frozen=True, slots=True)
class SlowRank:
    """A rank that its peers wait for: mean milliseconds per operation, over how many, and what showed it."""

    rank: int
    waited_ms: float
    operations: int
    basis: str


@dataclass(frozen=True, slots=True)
class Slowness:
    """The ranks that the others wait for; with none, `untold` says why one may be waited for all the same."""

    slow: tuple[SlowRank, ...]
    untold: str | None


@dataclass(frozen=True, slots=True)
class _Waits:
    """What one part shows: in how many operations all its ranks are seen, in which somebody waits, and for whom.

    `used` is the most operations that one of its ranks has; `last` holds the mean milliseconds that the others wait for
    a rank that is nearly always the last to join, and `share` how much of their time that is.
    """

    part: Part
    used: int
    operations: int
    waiting: int
    last: Mapping[int, float]
    share: float

    @property
    def telling(self) -> bool:
        """Whether it names or clears somebody."""
        return self.waiting >= _FEWEST_IN_GROUP and (not self.last or self.share >= _SLOW_SHARE)

    @property
    def short(self) -> bool:
        """Whether what the dumps of its ranks have in common is too little, though the group is in use."""
        return self.operations < _FEWEST_UNITS <= self.used


def slow_ranks(dumps: DumpSet, groups: Groups) -> Slowness:
    """The ranks that all their groups wait for, among those that do the same work.

    With durations (`TORCH_NCCL_ENABLE_TIMING`) the last to join an operation has the shortest one. Without, the last to
    issue it is taken, which shows slow hosts only: nobody is cleared by that.
    """
    parts = parts_alike(dumps.dumps, groups)
    timed = _durations(dumps, groups)
    if not timed:
        return _by_issue(dumps, groups, parts)
    used = _used(dumps, groups)
    seen = [_waits(part, timed.get(part.group, {}), used) for part in parts]
    found = _found(seen, _BY_DURATION, _FEWEST_UNITS)
    return Slowness(found, None if found else _untold(seen, dumps.dumps.keys()))


def _by_issue(dumps: DumpSet, groups: Groups, parts: Sequence[Part]) -> Slowness:
    used = _used(dumps, groups)
    times = issue_times(dumps.dumps, groups, parts)
    found = _found([_waits(part, rows, used) for part, rows in times.items()], _BY_ISSUE, _FEWEST_IN_GROUP)
    found = tuple(slow for slow in found if slow.waited_ms >= _HOST_JITTER_MS)
    if len(found) == 1:
        return Slowness(found, None)
    active = all(dump.only_active for dump in dumps.dumps.values())
    why = "the dumps list active operations only, without durations" if active else "no durations are recorded"
    late = constantly_late(dumps.dumps, groups, parts)
    suspects = "".join(
        f"; rank {rank} issues {ms:,.0f} ms after its peers each time: it is slow, or the clock of its host is ahead"
        for rank, ms in late.items()
    )
    return Slowness((), f"{why}; {_HOSTS_ONLY}{suspects}; {_SET_TIMING}")


def _durations(dumps: DumpSet, groups: Groups) -> Times:
    times: dict[int, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for rank, dump in dumps.dumps.items():
        for name, rows in dump.durations.items():
            if name in groups.of[rank]:
                for seq, ms in rows.items():
                    times[groups.of[rank][name]][seq][rank] = ms
    return times


def _used(dumps: DumpSet, groups: Groups) -> Mapping[tuple[int, int], int]:
    """How many operations each dump has of each group, by rank and group number, over or open."""
    used: Counter[tuple[int, int]] = Counter()
    for rank, dump in dumps.dumps.items():
        used.update((rank, groups.of[rank][op.group]) for op in dump.ops)
    return used


def _waits(part: Part, times: Mapping[int, Mapping[int, float]], used: Mapping[tuple[int, int], int]) -> _Waits:
    members = set(part.ranks)
    units = [{rank: unit[rank] for rank in part.ranks} for unit in times.values() if members <= unit.keys()]
    waiting = [unit for unit in units if _somebody_waits(unit)]
    waits = ((rank, _waited_for(rank, waiting)) for rank in part.ranks) if waiting else ()
    last = {rank: ms for rank, ms in waits if ms is not None}
    spent = sum(abs(fmean(unit.values())) for unit in units)
    share = len(waiting) * max(last.values(), default=0.0) / spent if spent else 0.0
    most = max(used.get((rank, part.group), 0) for rank in part.ranks)
    return _Waits(part, most, len(units), len(waiting), last, share)


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


def _found(seen: Sequence[_Waits], basis: str, fewest: int) -> tuple[SlowRank, ...]:
    """By the groups that are smaller than the world; by that where they tell nothing, as all delays meet in it."""
    telling = [each for each in seen if each.telling]
    smaller = [each for each in telling if not each.part.of_world]
    of_world = [each for each in telling if each.part.of_world]
    doubtful = {rank for each in seen if each.short and not each.part.of_world for rank in each.part.ranks}
    doubtful.update(rank for each in smaller for rank in each.part.ranks if rank not in each.last)
    found = _always_last(smaller, doubtful, basis, fewest)
    if found:
        return found
    doubtful.update(rank for each in of_world for rank in each.part.ranks if rank not in each.last)
    return _always_last(of_world, doubtful, basis, fewest)


def _always_last(seen: Sequence[_Waits], doubtful: Collection[int], basis: str, fewest: int) -> tuple[SlowRank, ...]:
    waits: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for each in seen:
        for rank, ms in each.last.items():
            waits[rank].append((ms, each.waiting))
    left = {r: rows for r, rows in waits.items() if r not in doubtful and sum(n for _, n in rows) >= fewest}
    # Delay is passed on to other pipeline stages, but only the slow rank is clearly late in all of its own groups.
    most = max((len(rows) for rows in left.values()), default=0)
    weakest = {rank: min(ms * count for ms, count in rows) for rank, rows in left.items() if len(rows) == most}
    found = [
        SlowRank(rank, fmean(ms for ms, _ in left[rank]), sum(count for _, count in left[rank]), basis)
        for rank, wait in weakest.items()
        if wait >= max(weakest.values()) / 2
    ]
    return tuple(sorted(found, key=lambda slow: -slow.waited_ms)) if len(found) <= _MOST_SLOW else ()


def _untold(seen: Sequence[_Waits], ranks: Iterable[int]) -> str | None:
    """Why nobody may be cleared, though nobody is named; None where all ranks were compared and are even."""
    compared: dict[int, int] = defaultdict(int)
    for each in seen:
        for rank in each.part.ranks:
            compared[rank] += each.operations
    alone = [rank for rank in ranks if rank not in compared]
    if alone:
        return f"no other rank does the same work in a group of {_who(alone)}"
    doubtful = {rank for each in seen if each.short and not each.part.of_world for rank in each.part.ranks}
    short = [rank for rank in ranks if rank in doubtful or compared[rank] < _FEWEST_UNITS]
    if short:
        return f"the dumps have too few operations of {_who(short)} in common"
    suspects = sorted({rank for each in seen if each.share >= _SLOW_SHARE for rank in each.last})
    if suspects:
        return f"{_who(suspects)} joined last in some groups, in too few operations or not in all groups"
    return None


def _who(ranks: Sequence[int]) -> str:
    return name_folded(fold_ranks(ranks))
