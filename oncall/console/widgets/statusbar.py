"""The status line, the one thing on a screen that changes by itself."""

from datetime import datetime
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from oncall.console.glyphs import ascii_only
from oncall.console.snapshot import Snapshot
from oncall.console.views.status import status_line

if TYPE_CHECKING:
    from oncall.console.host import Host


class StatusBar(Widget, can_focus=False):
    """One line; `tick` redraws it when what it says has changed."""

    app: "Host"

    def __init__(self) -> None:
        super().__init__(id="status")
        self._snapshot: Snapshot | None = None
        self._said = ""

    def show(self, snapshot: Snapshot) -> None:
        """Show the status of this snapshot."""
        self._snapshot = snapshot
        self.refresh()

    @property
    def text(self) -> str:
        """The line as plain text."""
        return self._words(self.app.clock()).strip() if self._snapshot is not None else ""

    def tick(self, now: datetime) -> None:
        """Redraw where time has changed the words."""
        if self._snapshot is not None and self._words(now) != self._said:
            self.refresh()

    def _words(self, now: datetime) -> str:
        assert self._snapshot is not None
        return "".join(span.text for span in status_line(self._snapshot, now, self.size.width, self.app.glyphs))

    def render_line(self, y: int) -> Strip:
        """The line."""
        base, width = self.rich_style, self.size.width
        if self._snapshot is None or y > 0:
            return Strip.blank(width, base)
        spans = status_line(self._snapshot, self.app.clock(), width, self.app.glyphs)
        self._said = "".join(span.text for span in spans)
        plain = self.app.has_class("-ascii")
        segments = [
            Segment(
                ascii_only(text) if plain else text,
                base + self.app.paint.tones[tone],
            )
            for text, tone in spans
        ]
        return Strip(segments).adjust_cell_length(width, base)
