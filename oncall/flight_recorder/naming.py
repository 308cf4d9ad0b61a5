"""The numbers in a file's name that may be the rank that wrote it; which of them it is, the whole set tells."""

import re

_SUFFIXES = {"gz", "zst", "json", "pkl", "pickle"}
_NUMBER = re.compile(r"[0-9]+")
_AFTER_RANK = re.compile(r"(?<!local)(?<!local[_.-])(?:rank[_.-]?|(?<![a-z0-9])r(?=[0-9]+(?:[_.-]|$)))([0-9]+)", re.I)
_MOST_DIGITS = 7
"""A number of more is a time or a job's id."""

Place = tuple[int, int]
"""Where in a name a number stands, the more usual places for a rank first."""

AFTER_PREFIX: Place = (0, 0)
AFTER_RANK: Place = (1, 0)
_FROM_END = 2
_FROM_START = 3


def numbers_in(name: str, prefix: str | None) -> dict[Place, int]:
    """The numbers of a file name by place, none where it does not begin with `prefix`.

    After `prefix`, else after the word `rank` (or a lone `r`), then counted from the end and from the start. Of a name
    without a number, that of a folder such as `rank_3`.
    """
    base = _bare(name)
    if prefix is not None:
        start = _file_of(prefix)
        if not base.startswith(start):
            return {}
        base = base[len(start) :]
        first = _NUMBER.match(base)
        if first is not None:
            return _readable({AFTER_PREFIX: first[0]})
    found: dict[Place, str] = {}
    every = _NUMBER.findall(base)
    after_rank = _AFTER_RANK.findall(base if every or prefix is not None else folder_of(name))
    if after_rank:
        found[AFTER_RANK] = after_rank[-1]
    found |= {(_FROM_END, place): number for place, number in enumerate(reversed(every))}
    found |= {(_FROM_START, place): number for place, number in enumerate(every)}
    return _readable(found)


def form_of(name: str) -> str:
    """A file name with its numbers taken out: what the files of one job have in common."""
    return _NUMBER.sub("#", _bare(name))


def folder_of(name: str) -> str:
    """The folder that a file lies in, which is the host where each node has one; "" where none is given."""
    return name.rpartition("/")[0].rpartition("/")[2]


def _bare(name: str) -> str:
    base = _file_of(name)
    while True:
        stem, _, suffix = base.rpartition(".")
        if not stem or suffix not in _SUFFIXES:
            return base
        base = stem


def _file_of(path: str) -> str:
    return path.rpartition("/")[2]


def _readable(found: dict[Place, str]) -> dict[Place, int]:
    return {place: int(text[-_MOST_DIGITS:]) for place, text in found.items() if len(text.lstrip("0")) <= _MOST_DIGITS}
