"""Which rank wrote a file: by its name, and where names repeat, by the groups that the dump says it is a member of."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from oncall.flight_recorder.model import RankDump, Refused

_SUFFIXES = {".gz", ".zst", ".json", ".pkl", ".pickle"}
_LAST_NUMBER = re.compile(r"(\d{1,7})$")


def rank_of(name: str, prefix: str | None) -> int | None:
    """The rank that a file name states: the number after `prefix`, else the number at its end (suffixes stripped)."""
    path = PurePosixPath(name)
    while path.suffix in _SUFFIXES:
        path = path.with_suffix("")
    base = path.name
    if prefix is not None:
        if not base.startswith(PurePosixPath(prefix).name):
            return None
        base = base[len(PurePosixPath(prefix).name) :]
    match = _LAST_NUMBER.search(base)
    return int(match[1]) if match else None


def settle_ranks(found: Sequence[RankDump]) -> tuple[dict[int, RankDump], tuple[Refused, ...], tuple[str, ...]]:
    """Give each dump one rank. Returns the dumps by rank, those left over, and what was assumed on the way.

    Folders of several nodes may hold equal names when a trainer numbers by local rank. Then the one rank that is a
    member of all groups of the dump is its rank; failing that, folders in order that hold 0..n-1 each are counted
    through.
    """
    by_rank: dict[int, list[RankDump]] = defaultdict(list)
    for dump in found:
        by_rank[dump.rank].append(dump)
    if all(len(same) == 1 for same in by_rank.values()):
        return {rank: same[0] for rank, same in sorted(by_rank.items())}, (), ()
    renamed = _by_membership(found) or _by_folder(found)
    if renamed:
        note = "file names repeat over the folders; ranks were taken from the groups or counted through the folders"
        return {dump.rank: dump for dump in sorted(renamed, key=lambda d: d.rank)}, (), (note,)
    twice = tuple(
        Refused(dump.source, f"a second dump of rank {dump.rank}; {same[0].source} is used", dump.rank)
        for same in by_rank.values()
        for dump in same[1:]
    )
    return {rank: same[0] for rank, same in sorted(by_rank.items())}, twice, ()


def _by_membership(found: Sequence[RankDump]) -> list[RankDump] | None:
    renamed = {}
    for dump in found:
        groups = [set(group.ranks) for name, group in dump.config.items() if name and group.ranks]
        common = set.intersection(*groups) if groups else set()
        if len(common) != 1:
            return None
        rank = common.pop()
        renamed[rank] = replace(dump, rank=rank)
    return list(renamed.values()) if len(renamed) == len(found) else None


def _by_folder(found: Sequence[RankDump]) -> list[RankDump] | None:
    folders: dict[str, list[RankDump]] = defaultdict(list)
    for dump in found:
        folders[dump.host or ""].append(dump)
    sizes = {tuple(sorted(d.rank for d in own)) for own in folders.values()}
    if len(sizes) != 1:
        return None
    (local,) = sizes
    if local != tuple(range(len(local))):
        return None
    return [
        replace(dump, rank=node * len(local) + dump.rank)
        for node, (_, own) in enumerate(sorted(folders.items(), key=lambda item: _natural(item[0])))
        for dump in own
    ]


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
