"""Lines of a large log: the few that may say something are found first, and only those are decoded."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oncall.formats.envelope import unwrap

MAX_LINE_BYTES = 64 * 1024
"""Of a longer line the middle is left out: the longest known message is under 4 KiB, but a progress bar that redraws
itself without a line feed holds its newest state at the end."""

MAX_BLOCK_LINES = 2000
"""The most lines that one event may span."""

_COLOUR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


def strip_colour(text: str) -> str:
    """`text` without ANSI control sequences: CSI of any parameters, and OSC (ECMA-48)."""
    return _COLOUR.sub("", text) if "\x1b" in text else text


@dataclass(frozen=True, slots=True)
class Line:
    """One line without colour codes and envelopes.

    `number` is 1-based, `rank` the global rank that an envelope such as `[rank3]:` names, `start` and `end` its bytes.
    """

    number: int
    text: str
    rank: int | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Log:
    """The bytes of one log with its name; `rank` is the global rank it belongs to when its place tells that."""

    data: bytes
    name: str
    rank: int | None = None

    def _line(self, number: int, start: int) -> Line:
        end = self.data.find(b"\n", start)
        end = len(self.data) if end < 0 else end
        raw = self.data[start:end]
        if len(raw) > MAX_LINE_BYTES:
            raw = raw[: MAX_LINE_BYTES // 2] + b"\r" + raw[-MAX_LINE_BYTES // 2 :]
        rank, text = unwrap(strip_colour(raw.decode("utf-8", "replace")).rstrip("\r"))
        return Line(number, text, rank, start, end)

    def candidates(self, anchors: Mapping[bytes, str]) -> Iterator[tuple[Line, frozenset[str]]]:
        """The lines that hold one of `anchors`, in order, each with the names that its anchors map to.

        One search a literal over the whole buffer: `bytes.find` runs at 1 to 5 GB/s, so that thirty take about half the
        time of one compiled alternation of them (CPython 3.11; tests/bench/formats.py measures it).
        """
        found: dict[int, set[str]] = {}
        for anchor, name in anchors.items():
            at = self.data.find(anchor)
            while at >= 0:
                found.setdefault(self.data.rfind(b"\n", 0, at) + 1, set()).add(name)
                end = self.data.find(b"\n", at)
                at = self.data.find(anchor, end) if end >= 0 else -1
        number, seen = 1, 0
        for start in sorted(found):
            number += self.data.count(b"\n", seen, start)
            seen = start
            yield self._line(number, start), frozenset(found[start])

    def following(self, line: Line) -> Iterator[Line]:
        """The lines after `line`, at most MAX_BLOCK_LINES, for events of several lines."""
        for number in range(line.number + 1, line.number + 1 + MAX_BLOCK_LINES):
            if line.end + 1 >= len(self.data):
                return
            line = self._line(number, line.end + 1)
            yield line
