"""Puts every rank's process groups together: one group is its name and its members, over all dumps."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from oncall.flight_recorder.model import Group, RankDump

DEFAULT_GROUP = "default_pg"


@dataclass(frozen=True, slots=True)
class Groups:
    """All groups of a job. `known` is indexed by group number; `of` gives a rank's groups by name.

    `world` holds all ranks that the job is known to have, with or without a dump.
    """

    known: tuple[Group, ...]
    of: Mapping[int, Mapping[str, int]]
    world: tuple[int, ...]


def resolve(dumps: Mapping[int, RankDump], world_size: int | None) -> Groups:
    """Collect groups from the group tables; those without a table (gloo) from the ranks that used them."""
    numbers: dict[tuple[str, tuple[int, ...]], int] = {}
    known: list[Group] = []
    # Equal groups of different dumps are mostly one object, see Digester, and to hash a world for each dump takes long.
    by_object: dict[int, int] = {}
    of: dict[int, dict[str, int]] = {rank: {} for rank in dumps}
    for rank, dump in dumps.items():
        for name, group in dump.config.items():
            if name and group.ranks:
                if id(group) not in by_object:
                    by_object[id(group)] = numbers.setdefault((name, group.ranks), len(known))
                    if by_object[id(group)] == len(known):
                        known.append(group)
                of[rank][name] = by_object[id(group)]
    _place_untabled(dumps, known, of)
    highest = max((rank for group in known for rank in group.ranks), default=-1)
    size = max(highest, *dumps, (world_size or 0) - 1) + 1 if dumps else world_size or 0
    return Groups(tuple(_extend(group, world_size) for group in known), of, tuple(range(size)))


def _place_untabled(dumps: Mapping[int, RankDump], known: list[Group], of: Mapping[int, dict[str, int]]) -> None:
    users: dict[str, list[int]] = defaultdict(list)
    for rank, dump in dumps.items():
        for name in dict.fromkeys(op.group for op in dump.ops):
            if name not in of[rank]:
                users[name].append(rank)
    for name, ranks in users.items():
        tabled = [number for number, group in enumerate(known) if group.name == name]
        left = []
        for rank in ranks:
            number = next((n for n in tabled if rank in known[n].ranks), None)
            if number is None:
                left.append(rank)
            else:
                of[rank][name] = number
        if left:
            for rank in left:
                of[rank][name] = len(known)
            known.append(_inferred(name, left, dumps))


def _inferred(name: str, ranks: list[int], dumps: Mapping[int, RankDump]) -> Group:
    """A group that no table lists. Gloo's one unnamed table row is the world until a subgroup overwrites it."""
    desc = next((dumps[r].descs[name] for r in ranks if name in dumps[r].descs), "")
    members = set(ranks)
    if desc == DEFAULT_GROUP:
        # Equal rank lists of different dumps are one object, see Digester.
        rows = {id(row): row for r in ranks if "" in dumps[r].config and (row := dumps[r].config[""].ranks)}.values()
        members.update(*(row for row in rows if members <= set(row)))
    return Group(name, desc, tuple(sorted(members)), inferred=True)


def _extend(group: Group, world_size: int | None) -> Group:
    if world_size is None or not group.inferred or group.desc != DEFAULT_GROUP:
        return group
    return replace(group, ranks=tuple(range(max(world_size, len(group.ranks)))))
