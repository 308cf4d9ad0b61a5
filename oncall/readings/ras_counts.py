"""How far ranks have launched at two looks of NCCL's RAS service: who stands behind, and whether anything moved.

The JSON form tells every rank's count. The text form tells counts where ranks differ, with how many ranks share each,
and of those only the smaller groups rank by rank: both forms come to one answer as far as that goes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oncall.formats.nccl_ras import RasCounts, RasProcess, RasStatus

Key = tuple[str, str]
"""A communicator and one of its operations."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Ranks that have launched `count` of an operation at both looks, fewer than their peers, who had come to `most`.

    `process` is None where the text form counts `ranks` of them without naming any.
    """

    operation: str
    count: int
    most: int
    process: RasProcess | None
    ranks: int = 1


def same(one: RasProcess) -> tuple[str | None, int | None, int | None]:
    """What a process is known by: host and pid, or its rank where those are not told."""
    return one.host, one.pid, None if one.pid is not None else one.rank


def launched_between(first: RasStatus, last: RasStatus) -> int:
    """At least how many operations were launched between two looks; 0 where none is known to have been."""
    return sum(_growth(first, last).values())


def standing(first: RasStatus, last: RasStatus) -> Iterator[Standing]:
    """Those behind at both looks whose count has not changed, while their peers went on or nothing moves at all."""
    growth, earlier = _growth(first, last), _counts(first)
    idle = not any(growth.values())
    for key, counts in _counts(last).items():
        before = earlier.get(key)
        if before is None or not (idle or growth[key]):
            continue
        named = {same(process): count for process, count in before.launched.items()}
        for each in _behind(counts):
            told = named.get(same(each.process)) if each.process is not None else None
            may_have_had = {told} if told is not None else {n for n in _unnamed(before, each) if n <= each.count}
            if may_have_had == {each.count} and each.count < _usual(before):
                yield each


def _counts(look: RasStatus) -> dict[Key, RasCounts]:
    return {(each.communicator, each.operation): each for each in look.counts}


def _growth(first: RasStatus, last: RasStatus) -> Mapping[Key, int]:
    """Of each operation at least how many were launched.

    Where the text form tells of one at one look only, its ranks were equal at the other: somebody launched in between,
    unless a process that is missing took its count with it.
    """
    before, after = _counts(first), _counts(last)
    missing = any((first.dead, first.silent, last.dead, last.silent))
    evened = int(not missing and not (first.whole and last.whole))
    return {
        key: _grown(before[key], after[key]) if key in before and key in after else evened
        for key in before.keys() | after.keys()
    }


def _grown(before: RasCounts, after: RasCounts) -> int:
    """By how much the sum over all ranks grew; where other ranks are told of, by how much the foremost got on."""
    early, late = _tally(before), _tally(after)
    if sum(early.values()) != sum(late.values()):
        return max(0, max(late, default=0) - max(early, default=0))
    return max(0, sum(count * ranks for count, ranks in late.items()) - sum(n * ranks for n, ranks in early.items()))


def _behind(counts: RasCounts) -> Iterator[Standing]:
    """Those with fewer than most ranks have."""
    usual, most = _usual(counts), max(_tally(counts), default=0)
    for process, count in counts.launched.items():
        if count < usual:
            yield Standing(counts.operation, count, most, process)
    for count, ranks in counts.others.items():
        if count < usual:
            yield Standing(counts.operation, count, most, None, ranks)


def _unnamed(before: RasCounts, behind: Standing) -> Mapping[int, int]:
    """The counts among which those were whom the look before does not name, of which none can have fallen since."""
    return before.others if behind.process is not None else _tally(before)


def _usual(counts: RasCounts) -> int:
    """What most ranks have launched; of groups of equal size the one that came further."""
    tally = _tally(counts)
    return max(tally, key=lambda count: (tally[count], count), default=0)


def _tally(counts: RasCounts) -> dict[int, int]:
    """Count → how many ranks have it."""
    tally: dict[int, int] = dict(counts.others)
    for count in counts.launched.values():
        tally[count] = tally.get(count, 0) + 1
    return tally
