"""A list of rows drawn line by line: only what is visible is rendered, however long the list is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Blur, Click, Focus
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from oncall.console.glyphs import ascii_only
from oncall.console.lines import NOTHING, Line, Row, Tone, plain_row, wrap

if TYPE_CHECKING:
    from oncall.console.host import Host

_NEAR = 64
"""How far the next row that is no heading may be."""


class Listing(ScrollView, can_focus=True):
    """Rows with an optional cursor.

    With `wrapped`, rows take as many lines as they need and must be few hundred at most; without, each is one line that
    moves left and right, and `rows` may be any sequence, read only where it is visible. With `marks` the row under the
    cursor stays marked when another pane has the focus.
    """

    app: "Host"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "edge(-1)", show=False),
        Binding("end", "edge(1)", show=False),
        Binding("left", "shift(-1)", show=False),
        Binding("right", "shift(1)", show=False),
    ]

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, listing: "Listing", row: Row | None) -> None:
            super().__init__()
            self.listing = listing
            self.row = row

        @property
        def control(self) -> "Listing":
            """The list whose cursor it is."""
            return self.listing

    def __init__(
        self,
        *,
        wrapped: bool = True,
        cursor: bool = True,
        marks: bool = False,
        name: str,
        id: str,  # noqa: A002
    ) -> None:
        super().__init__(name=name, id=id)
        self.can_focus = cursor
        self._wrapped = wrapped
        self._shows_cursor = cursor
        self._marks = marks
        self._all: Sequence[Row] = ()
        self._rows: Sequence[Row] = ()
        self._lines: list[tuple[int, Line]] = []
        self._needle = ""
        self._at = 0
        self._width = 0
        self._shift = 0

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self._at] if self._at < len(self._rows) else None

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows; the cursor stays on the row of the same key, the view where it was."""
        if rows != self._all:
            self._all = rows
            self._choose()

    def filter(self, needle: str) -> None:
        """Show only rows that hold this text, whatever its case; headings stay."""
        if needle.lower() != self._needle:
            self._needle = needle.lower()
            self._choose()

    def put_cursor(self, key: str) -> None:
        """Move the cursor to the row of this key, if there is one."""
        index = self._index_of(key)
        if index is not None:
            self._go(index)

    @property
    def rows(self) -> Sequence[Row]:
        """The rows that the filter lets through."""
        return self._rows

    @property
    def text(self) -> str:
        """All rows as plain text."""
        return "\n".join(row.text for row in self._rows)

    def _choose(self) -> None:
        key = self.row.key if self.row else None
        self._rows = self._matching(self._needle) if self._needle else self._all
        position = self._position(key)
        changed = position != self._at or key != (self._rows[position].key if self._rows else None)
        self._at = position
        self._lay_out()
        if changed and self._shows_cursor:
            self.post_message(self.Moved(self, self.row))

    def _matching(self, needle: str) -> list[Row]:
        rows = [row for row in self._all if row.fixed or needle in row.text.lower()]
        if all(row.fixed for row in rows):
            rows.append(plain_row(NOTHING, "no row holds this text", Tone.WARN))
        return rows

    def _position(self, key: str | None) -> int:
        if key is not None and (self._wrapped or len(self._rows) < 1000):
            index = self._index_of(key)
            if index is not None:
                return index
        at = min(self._at, max(0, len(self._rows) - 1))
        near = (*range(at, min(len(self._rows), at + _NEAR)), *range(at - 1, max(-1, at - _NEAR), -1))
        return next((index for index in near if not self._rows[index].fixed), at)

    def _index_of(self, key: str) -> int | None:
        return next((index for index, row in enumerate(self._rows) if row.key == key), None)

    def _lay_out(self) -> None:
        """Break the rows into lines; where not all of them fit, the scroll bar takes its column.

        Before the pane has its place the screen's width is the best guess: a slow machine shows it for a moment.
        """
        whole, height = self.size.width or self.app.size.width, self.size.height
        self._width = whole
        self._lines = self._broken(whole) if self._wrapped else []
        if self._height > height:
            self._width = whole - self.styles.scrollbar_size_vertical
            self._lines = self._broken(self._width) if self._wrapped else []
        self.virtual_size = Size(self._width, self._height)
        self.refresh()

    @property
    def _height(self) -> int:
        return len(self._lines) if self._wrapped else len(self._rows)

    def _broken(self, width: int) -> list[tuple[int, Line]]:
        return [(i, line) for i, row in enumerate(self._rows) for line in wrap(row.spans, width, row.hang)]

    def on_resize(self) -> None:
        self._lay_out()
        self._reveal()

    def on_focus(self, _event: Focus) -> None:
        self.refresh()

    def on_blur(self, _event: Blur) -> None:
        self.refresh()

    def on_click(self, event: Click) -> None:
        line = event.y + self.scroll_offset.y
        if self._shows_cursor and line < self.virtual_size.height:
            self._go(self._lines[line][0] if self._wrapped else line)

    def action_move(self, by: int) -> None:
        """Move the cursor, passing over headings; without a cursor, scroll."""
        at = self._at + by
        while 0 <= at < len(self._rows) and self._rows[at].fixed:
            at += by
        if self._shows_cursor and 0 <= at < len(self._rows):
            self._go(at)
        else:
            self.scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Move by a page."""
        if not self._shows_cursor:
            self.scroll_relative(y=by * self.size.height, animate=False)
            return
        self._go(min(max(0, self._at + by * max(1, self.size.height - 1)), max(0, len(self._rows) - 1)))

    def action_shift(self, by: int) -> None:
        """Move a table that is wider than its pane, half a pane at a time."""
        shown = self._rows[self.scroll_offset.y : self.scroll_offset.y + self.size.height]
        widest = max((cell_len(row.text) for row in shown), default=0)
        most = 0 if self._wrapped else max(0, widest - self._width + 1)
        self._shift = min(max(0, self._shift + by * (self._width // 2)), most)
        self.refresh()

    def action_edge(self, to: int) -> None:
        """Move to the first or the last row."""
        self._go(0 if to < 0 else max(0, len(self._rows) - 1))

    def _go(self, at: int) -> None:
        if at != self._at:
            self._at = at
            self.refresh()
            self.post_message(self.Moved(self, self.row))
        self._reveal()

    def _reveal(self) -> None:
        """Scroll as little as shows the row under the cursor; a list that was not laid out yet waits for that."""
        if self._shows_cursor and self.size.height > 0:
            first, last = self._extent(self._at)
            self.scroll_to_region(Region(0, first, 1, last - first + 1), animate=False, force=True)

    def _extent(self, at: int) -> tuple[int, int]:
        if not self._wrapped:
            return at, at
        own = [number for number, (index, _) in enumerate(self._lines) if index == at]
        return (own[0], own[-1]) if own else (0, 0)

    def render_line(self, y: int) -> Strip:
        """One visible line."""
        number = y + self.scroll_offset.y
        width, base = self._width, self.rich_style
        if number >= self.virtual_size.height:
            return Strip.blank(width, base)
        index, spans = self._lines[number] if self._wrapped else (number, self._rows[number].spans)
        under = index == self._at and self._shows_cursor and not self._rows[index].fixed
        return self._strip(spans, width, base, under=under)

    def _strip(self, spans: Line, width: int, base: Style, *, under: bool) -> Strip:
        paint = self.app.paint
        cursor = (paint.cursor if self.has_focus else paint.mark if self._marks else None) if under else None
        plain_text = self.app.has_class("-ascii")
        segments = []
        for text, tone in spans:
            style = base + paint.tones[tone]
            segments.append(Segment(ascii_only(text) if plain_text else text, style + cursor if cursor else style))
        filler = base + cursor if cursor else base
        cut, strip = Segment("~" if plain_text else "…", filler), Strip(segments)
        if self._shift:
            strip = Strip([cut, *strip.crop(self._shift + 1)] if strip.cell_length > self._shift else [])
        if strip.cell_length > width > 1:
            strip = Strip([*strip.crop(0, width - 1), cut])
        return strip.adjust_cell_length(width, filler)
