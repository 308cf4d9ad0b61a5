"""Rank sets as people write them: `0-3,7`."""

from collections.abc import Iterable


def fold(ranks: Iterable[int]) -> str:
    """Write a set of ranks as ranges in order; an empty set is `-`."""
    rows: list[tuple[int, int]] = []
    for rank in sorted(set(ranks)):
        if rows and rank == rows[-1][1] + 1:
            rows[-1] = (rows[-1][0], rank)
        else:
            rows.append((rank, rank))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in rows) or "-"
