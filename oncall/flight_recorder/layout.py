"""Fits text into the width of a terminal: lines go on under what they say, columns take the room that there is."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

_LABEL = re.compile(r" *[a-z]+( [a-z]+)? {2,}")
_RANKS = re.compile(r"(?<=ranks )[0-9,-]{24,}")
_NARROWEST = 22
"""Of a column: the name `all_gather_into_tensor`; three stand beside the sequence numbers in 80."""
_GAP = 2


def wrapped(line: str, width: int | None) -> list[str]:
    """A line broken at spaces, and long sets of ranks at their commas; the rest goes on after its label. None: whole.

    Paths stay in one piece, so that they can be copied.
    """
    if width is None or len(line) <= width:
        return [line]
    label = _LABEL.match(line)
    indent = len(line) - len(line.lstrip())
    return textwrap.wrap(
        _RANKS.sub(lambda ranks: ranks[0].replace(",", ", "), line),
        width,
        subsequent_indent=" " * (label.end() if label else indent + _GAP),
        break_long_words=False,
        break_on_hyphens=False,
    )


def columns_that_fit(grid: Sequence[Sequence[str]], width: int | None) -> list[int]:
    """Which columns of a grid have room beside its first: from the left, and always the last. None: all."""
    natural = [max(map(len, column)) for column in zip(*grid, strict=True)]
    last = len(natural) - 1
    if width is None:
        return list(range(1, last + 1))
    left = width - natural[0] - _GAP - min(natural[last], _NARROWEST)
    fit = []
    for place in range(1, last):
        left -= min(natural[place], _NARROWEST) + _GAP
        if left < 0:
            break
        fit.append(place)
    return [*fit, last]


def laid_out(grid: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    """The rows of a grid as lines; where they are wider than `width`, cells go on in further lines."""
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    if width is not None:
        narrow = [widths[0], *(min(each, _NARROWEST) for each in widths[1:])]
        spare = max(0, width - sum(narrow) - _GAP * (len(narrow) - 1))
        for place, least in enumerate(narrow):
            grown = min(widths[place] - least, spare)
            widths[place] = least + grown
            spare -= grown
    for row in grid:
        cells = [_broken(cell, room) for cell, room in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            yield "  ".join(part.ljust(room) for part, room in zip(parts, widths, strict=True)).rstrip()


def _broken(cell: str, room: int) -> list[str]:
    return [cell] if len(cell) <= room else textwrap.wrap(cell, room, break_on_hyphens=False)
