"""Which ranks of a group do the same work, so that how long they wait can be compared."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import RankDump

Stage = tuple[tuple[str, int], ...]
"""Where a rank stands in the groups that send and receive: their purpose, and its place in them."""


class Part(NamedTuple):
    """Ranks of one group that stand at the same stage of their pipelines; `of_world` if the group has all ranks."""

    group: int
    ranks: tuple[int, ...]
    of_world: bool


def parts_alike(dumps: Mapping[int, RankDump], groups: Groups) -> list[Part]:
    """The parts of two ranks or more of all groups but pipelines.

    The stages of a pipeline do different work and have different pauses, the first and the last above all.
    """
    pipelines = {groups.of[rank][name] for rank, dump in dumps.items() for name in _with_transfers(dump)}
    parts = []
    for number, group in enumerate(groups.known):
        by_stage: dict[Stage, list[int]] = defaultdict(list)
        for rank in group.ranks if number not in pipelines else ():
            by_stage[_stage(rank, pipelines, groups)].append(rank)
        of_world = len(group.ranks) == len(groups.world)
        parts += [Part(number, tuple(ranks), of_world) for ranks in by_stage.values() if len(ranks) > 1]
    return parts


def _with_transfers(dump: RankDump) -> Iterator[str]:
    yield from {op.group for op in dump.ops if op.peers is not None}
    yield from {channel.group for channel in dump.channels if channel.group in dump.config}


def _stage(rank: int, pipelines: set[int], groups: Groups) -> Stage:
    known = ((groups.known[number], number) for number in sorted(pipelines))
    return tuple((group.desc or group.name, group.ranks.index(rank)) for group, _ in known if rank in group.ranks)
