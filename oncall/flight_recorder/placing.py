"""Which rank wrote each file: by the names of all files, and where these cannot be, by the groups that dumps list."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from oncall.flight_recorder.model import DumpSet, RankDump, Refused
from oncall.flight_recorder.naming import AFTER_RANK, Place, folder_of, form_of, numbers_in
from oncall.flight_recorder.parcel import Row

UNPLACED = -1
"""The rank of a dump until the names of all files are known."""

_FROM_GROUPS = "the file names do not tell the ranks (they repeat, or the dumps exclude them): the dumps' groups do"
_COUNTED = "the file names repeat over the folders: ranks were counted through the folders"
_EXCLUDED = "its name says rank {rank}, which its own groups exclude: which rank wrote it cannot be told"

Ranks = Sequence[int | None]
"""A rank for each row; None where it cannot be told."""


class _Tables:
    """Which ranks a dump may be of: a rank's tables list the groups that it is a member of."""

    def __init__(self) -> None:
        # Equal rank lists of different dumps are mostly one object, see Digester.
        self._sets: dict[int, frozenset[int]] = {}

    def allow(self, dump: RankDump, rank: int) -> bool:
        return all(rank in members for members in self._of(dump))

    def options(self, dump: RankDump) -> frozenset[int] | None:
        """The members that all groups of the dump have in common; None where it lists none."""
        every = sorted(self._of(dump), key=len)
        return frozenset.intersection(*every) if every else None

    def _of(self, dump: RankDump) -> Iterable[frozenset[int]]:
        # The unnamed row of gloo is of whichever group was made last, also one that this rank is not in.
        for name, group in dump.config.items():
            if name and group.ranks:
                members = self._sets.get(id(group.ranks))
                yield self._sets.setdefault(id(group.ranks), frozenset(group.ranks)) if members is None else members


@dataclass(frozen=True, slots=True)
class _Score:
    """How badly the numbers at one place of the names serve as ranks; the lowest serves best."""

    unfit: int
    repeated: int

    @property
    def spotless(self) -> bool:
        return not self.unfit and not self.repeated


def settle_ranks(rows: Sequence[Row], prefix: str | None) -> DumpSet:
    """Give each dump one rank, and each file that gave no dump the rank whose dump it would have been.

    The number that is unique among the files and, where dumps list their groups, a member of all of them, is the rank.
    Where no number is (nodes number by local rank), the groups tell how far a folder's numbers are off, and failing
    that, folders that hold 0..n-1 each are counted through. A dump that still contradicts its name is left out.
    """
    tables = _Tables()
    named = _without_spares(rows, _by_name(rows, prefix, tables))
    if _score(rows, named, tables).spotless:
        return _placed(rows, named, ())
    for ranks, note in ((_by_groups(rows, named, tables), _FROM_GROUPS), (_by_folder(rows, named), _COUNTED)):
        if ranks is not None and _consistent(rows, ranks, tables):
            return _placed(rows, ranks, (note,) if list(ranks) != list(named) else ())
    return _one_by_one(rows, named, tables, prefix)


def _by_name(rows: Sequence[Row], prefix: str | None, tables: _Tables) -> Ranks:
    found = [numbers_in(row.source, prefix) for row in rows]
    best: tuple[tuple[int, int], Ranks] | None = None
    for place in sorted({place for numbers in found for place in numbers}):
        ranks = _at(place, rows, [numbers.get(place) for numbers in found])
        score = _score(rows, ranks, tables)
        if score.spotless:
            return ranks
        if best is None or (score.unfit, score.repeated) < best[0]:
            best = (score.unfit, score.repeated), ranks
    return best[1] if best is not None else [None] * len(rows)


def _at(place: Place, rows: Sequence[Row], numbers: Ranks) -> Ranks:
    """The numbers of one place, without those of files that were no dumps and are not named like one."""
    forms = {form_of(row.source) for row in rows if isinstance(row, RankDump)}
    if place <= AFTER_RANK or not forms:
        return numbers
    return [
        number if isinstance(row, RankDump) or form_of(row.source) in forms else None
        for row, number in zip(rows, numbers, strict=True)
    ]


def _without_spares(rows: Sequence[Row], named: Ranks) -> Ranks:
    """The same without the numbers of files beside a dump of that number: what is left of its writing, a log."""
    dumps = {(folder_of(row.source), rank) for row, rank in zip(rows, named, strict=True) if isinstance(row, RankDump)}
    return [
        None if isinstance(row, Refused) and (folder_of(row.source), rank) in dumps else rank
        for row, rank in zip(rows, named, strict=True)
    ]


def _score(rows: Sequence[Row], ranks: Ranks, tables: _Tables) -> _Score:
    pairs = list(zip(rows, ranks, strict=True))
    unfit = sum(isinstance(row, RankDump) and (rank is None or not tables.allow(row, rank)) for row, rank in pairs)
    in_folder = Counter((folder_of(row.source), rank) for row, rank in pairs if rank is not None)
    overall = Counter(rank for rank in ranks if rank is not None)
    twice = sum(count - 1 for count in in_folder.values())
    return _Score(unfit + twice, sum(count - 1 for count in overall.values()))


def _by_groups(rows: Sequence[Row], named: Ranks, tables: _Tables) -> Ranks | None:
    """Each folder's numbers moved by as much as puts every dump of it into its own groups; None where that is open."""
    ranks: list[int | None] = [None] * len(rows)
    for own in _folders(rows).values():
        options = {i: tables.options(row) for i in own if isinstance(row := rows[i], RankDump)}
        offset = _offset([(named[i], allowed) for i, allowed in options.items()])
        for i in own:
            number, allowed = named[i], options.get(i)
            if offset is not None and number is not None:
                ranks[i] = number + offset
            elif allowed is not None and len(allowed) == 1:
                (ranks[i],) = allowed
            elif i in options:
                return None
    return ranks


def _offset(dumps: Sequence[tuple[int | None, frozenset[int] | None]]) -> int | None:
    """The one distance from the numbers of a folder to ranks that the dumps allow; None where none or several fit."""
    fit: set[int] | None = None
    for number, allowed in dumps:
        if number is not None and allowed is not None:
            if fit is None:
                fit = {rank - number for rank in allowed if rank >= number}
            else:
                fit = {distance for distance in fit if number + distance in allowed}
    return fit.pop() if fit is not None and len(fit) == 1 else None


def _by_folder(rows: Sequence[Row], named: Ranks) -> Ranks | None:
    folders = _folders(rows)
    local = {tuple(sorted(number for i in own if (number := named[i]) is not None)) for own in folders.values()}
    if len(folders) < 2 or len(local) != 1:
        return None
    (numbers,) = local
    if numbers != tuple(range(len(numbers))):
        return None
    ranks: list[int | None] = [None] * len(rows)
    for node, (_, own) in enumerate(sorted(folders.items(), key=lambda item: _natural(item[0]))):
        for i in own:
            number = named[i]
            ranks[i] = None if number is None else node * len(numbers) + number
    return ranks


def _consistent(rows: Sequence[Row], ranks: Ranks, tables: _Tables) -> bool:
    pairs = [(row, rank) for row, rank in zip(rows, ranks, strict=True) if isinstance(row, RankDump)]
    distinct = len({rank for _, rank in pairs}) == len(pairs)
    return distinct and all(rank is not None and tables.allow(row, rank) for row, rank in pairs)


def _one_by_one(rows: Sequence[Row], named: Ranks, tables: _Tables, prefix: str | None) -> DumpSet:
    """The dumps that no contradiction touches; each other by its groups, or left out with the reason."""
    ranks = list(named)
    used: dict[int, int] = {}
    doubtful: list[int] = []
    for i, (row, rank) in enumerate(zip(rows, named, strict=True)):
        if isinstance(row, RankDump):
            if rank is not None and tables.allow(row, rank):
                used.setdefault(rank, i)
            else:
                doubtful.append(i)
    for i in doubtful:
        row = rows[i]
        allowed = tables.options(row) if isinstance(row, RankDump) else None
        ranks[i] = min(allowed) if allowed is not None and len(allowed) == 1 else None
    for i in doubtful:
        if (rank := ranks[i]) is not None:
            used.setdefault(rank, i)
    kept = [
        _kept_or_why(rows, i, (named[i], rank), used, prefix) if isinstance(rows[i], RankDump) else rows[i]
        for i, rank in enumerate(ranks)
    ]
    return _placed(kept, ranks, ())


def _kept_or_why(
    rows: Sequence[Row], i: int, ranks: tuple[int | None, int | None], used: Mapping[int, int], prefix: str | None
) -> Row:
    """A dump whose rank, of those by name and settled, is its own; else why it is left out."""
    named, rank = ranks
    if rank is not None:
        first = used[rank]
        return rows[i] if first == i else Refused(rows[i].source, _second(rank, rows[first].source), rank)
    reason = _no_number(prefix) if named is None else _EXCLUDED.format(rank=named)
    return Refused(rows[i].source, reason, None)


def _second(rank: int, used: str) -> str:
    return f"a second dump of rank {rank}; {used} is used"


def _no_number(prefix: str | None) -> str:
    return "no rank: its name holds no number" + (f" after {prefix!r}" if prefix else "")


def _placed(rows: Sequence[Row], ranks: Ranks, notes: tuple[str, ...]) -> DumpSet:
    dumps: dict[int, RankDump] = {}
    refused = []
    for row, rank in zip(rows, ranks, strict=True):
        if isinstance(row, Refused):
            refused.append(replace(row, rank=rank))
        elif rank is not None:
            dumps[rank] = replace(row, rank=rank)
    return DumpSet(dict(sorted(dumps.items())), tuple(sorted(refused, key=lambda r: r.source)), notes)


def _folders(rows: Sequence[Row]) -> dict[str, list[int]]:
    folders: dict[str, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        folders[folder_of(row.source)].append(i)
    return folders


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
