"""What a screen is made of: rows of spans, each with a tone. No terminal and no Textual here."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from oncall.neutral import neutral

_LONGEST = 2000
"""Characters of one text that are looked at; no screen shows more of it."""

_MOVES_ITS_NEIGHBOURS = re.compile(
    "[\u0300-\u036f\u0590-\u08ff\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufb1d-\ufdff\ufe00-\ufe0f"
    "\ufe20-\ufe2f\ufe70-\ufefe\ufff9-\ufffb\U00010800-\U00010fff\U0001e800-\U0001efff\U0001f3fb-\U0001f3ff"
    "\U000e0000-\U000e0fff]"
)
"""Right-to-left letters, combining marks, selectors and tags: terminals disagree on where the next cell is."""


class Tone(StrEnum):
    """What a span means. Colour repeats it; words and glyphs carry it."""

    PLAIN = "plain"
    STRONG = "strong"
    DIM = "dim"
    BAD = "bad"
    WARN = "warn"
    GOOD = "good"
    HERE = "here"


class Span(NamedTuple):
    """A piece of a line; its text is safe to show once `safe` made it."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Span, ...]

NOTHING = "none"
"""The key of the row that stands where there is nothing to show, and says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a list. `key` names it across snapshots; `copies` is what `y` takes, None where there is nothing.

    Continuation lines of a wrapped row begin at column `hang`. A row that is `fixed` only heads others.
    """

    key: str
    spans: Line
    hang: int = 2
    copies: str | None = None
    fixed: bool = False
    about: object = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The words of the row."""
        return "".join(span.text for span in self.spans)


def safe(text: str) -> str:
    """Text from anywhere, made harmless to the cells around it and bounded in length."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
    return _MOVES_ITS_NEIGHBOURS.sub(lambda found: f"\\u{ord(found[0]):04x}", neutral(cut))


def say(text: str, tone: Tone = Tone.PLAIN) -> Span:
    """A span of text from anywhere."""
    return Span(safe(text), tone)


def plain_row(key: str, text: str, tone: Tone = Tone.PLAIN, *, hang: int = 2, copies: str | None = None) -> Row:
    """A row of one span."""
    return Row(key, (say(text, tone),), hang=hang, copies=copies)


def heading(text: str) -> Row:
    """A row that heads those below it; the cursor passes over it."""
    return Row(f"= {text}", (say(text, Tone.DIM),), fixed=True)


def fit(text: str, width: int) -> str:
    """Text cut or filled to exactly `width` cells; a cut ends in an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""


def wrap(spans: Iterable[Span], width: int, hang: int) -> list[Line]:
    """Break a row at spaces into lines of at most `width` cells; a word longer than a line is broken where it must."""
    lines: list[Line] = []
    line: list[Span] = []
    room = width
    for word in _words(spans, max(1, width - hang)):
        if cell_len(word.text) > room and line:
            lines.append(_joined(line))
            line, room = [Span(" " * hang)], width - hang
            word = Span(word.text.lstrip(" "), word.tone)  # noqa: PLW2901
        line.append(word)
        room -= cell_len(word.text)
    lines.append(_joined(line))
    return lines


def _words(spans: Iterable[Span], longest: int) -> Iterator[Span]:
    for text, tone in spans:
        for word in re.findall(r" *[^ ]+| +$", text):
            left = word
            while cell_len(left) > longest:
                head = _head(left, longest)
                yield Span(head, tone)
                left = left[len(head) :]
            yield Span(left, tone)


def _head(text: str, width: int) -> str:
    """The most of a text that takes no more than `width` cells, and at least one character."""
    taken = width
    while taken > 1 and cell_len(text[:taken]) > width:
        taken -= 1
    return text[:taken]


def _joined(line: Sequence[Span]) -> Line:
    """Neighbours of one tone become one span."""
    joined: list[Span] = []
    for span in line:
        if joined and joined[-1].tone is span.tone:
            joined[-1] = Span(joined[-1].text + span.text, span.tone)
        else:
            joined.append(span)
    return tuple(joined)


class Column(NamedTuple):
    """A column of a table; the last one takes the rest of the line whatever its width."""

    title: str
    width: int


def head_row(columns: Sequence[Column]) -> Row:
    """The titles over a table."""
    titles = [fit(each.title, each.width) for each in columns[:-1]] + [each.title for each in columns[-1:]]
    return Row("= head", (Span("  ".join(titles), Tone.DIM),), fixed=True)


def table_spans(columns: Sequence[Column], cells: Sequence[Span]) -> Line:
    """The cells of one table row, each in its column."""
    spans: list[Span] = []
    for index, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        last = index == len(columns) - 1
        spans.append(cell if last else Span(fit(cell.text, column.width) + "  ", cell.tone))
    return tuple(spans)
