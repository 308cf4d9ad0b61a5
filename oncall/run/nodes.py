"""Sets of hosts and of ranks in the folded notation of the field: `node[001-036,038-128]`, `0-292,294-1023`."""

import re
from collections.abc import Iterable
from functools import lru_cache
from math import prod

from ClusterShell.RangeSet import RangeSet, RangeSetException

MOST_RANKS = 1_000_000
"""Of one job; a larger number is a mistake, or means to fill the memory."""
MOST_HOSTS = 100_000
"""Of one folded set; a few signs can name more than the memory holds."""

_ITEM = re.compile(r"(?:\[[^\]]*\]|[^,\s\[])+")
_LONG = re.compile(r"\d{19}")
_RANGE = re.compile(r"(\d+)\s*-\s*(\d+)")


@lru_cache(maxsize=8)  # asked anew for each of thousands of nodes
def expand_hosts(text: str) -> tuple[str, ...]:
    """The hosts that a folded set names, in its order, each once.

    Raises ValueError where it names more than `MOST_HOSTS`, or with ClusterShell's explanation where its notation is
    wrong.
    """
    if sum(map(_most, _ITEM.findall(text))) > MOST_HOSTS:
        raise ValueError(f"names more than {MOST_HOSTS:,} nodes")
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # noqa: PLC0415  # see fold_hosts

    try:
        return tuple(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise ValueError(str(error)) from error


def _most(item: str) -> int:
    """How many hosts `rack[1-4]node[01-16,20]` names at most."""
    brackets = re.findall(r"\[([^\]]*)\]", item)
    return prod(_width(bracket) for bracket in brackets)


def _width(bracket: str) -> int:
    if _LONG.search(bracket):
        return MOST_RANKS + 1
    widths = (int(last) - int(first) + 1 for first, last in _RANGE.findall(bracket))
    return bracket.count(",") + 1 + sum(max(width, 0) for width in widths)


def fold_hosts(hosts: Iterable[str]) -> str:
    """Hosts as one folded set; "" for none."""
    # Imported here, as it loads half of the standard library, which who folds ranks alone need not wait for.
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # noqa: PLC0415

    names = list(hosts)
    try:
        return str(NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return ",".join(sorted(set(names)))


def fold_ranks(ranks: Iterable[int]) -> str:
    """Ranks as one folded set, `0-6,8`; "" for none."""
    folded = RangeSet()
    folded.update(str(rank) for rank in ranks)
    return str(folded)


def name_folded(ranks: str) -> str:
    """A folded set of ranks with its noun: `rank 5`, `ranks 0-4`."""
    return f"rank{'' if ranks.isdecimal() else 's'} {ranks}"


def expand_ranks(text: str) -> tuple[int, ...]:
    """The ranks that `0-3,7` names, ascending. Raises ValueError where it is no such set, or one beyond any job."""
    if _width(text) > MOST_RANKS:
        raise ValueError(f"{text!r} names more than {MOST_RANKS:,} ranks")
    try:
        return tuple(sorted(int(rank) for rank in RangeSet(text)))
    except RangeSetException as error:
        raise ValueError(f"{text!r} is not a set of ranks such as 0-3,7") from error
