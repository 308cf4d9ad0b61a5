"""The footer: the keys that matter here, redrawn only when they change."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.events import Click
from textual.strip import Strip
from textual.widget import Widget

from oncall.console.actions import Command
from oncall.console.lines import Tone

if TYPE_CHECKING:
    from oncall.console.host import Host


class KeyBar(Widget, can_focus=False):
    """One line of keys with their labels; a click does what the key does."""

    app: "Host"

    def __init__(self) -> None:
        super().__init__(id="keys")
        self._commands: tuple[Command, ...] = ()

    def show(self, commands: Sequence[Command]) -> None:
        """Show these commands."""
        if tuple(commands) != self._commands:
            self._commands = tuple(commands)
            self.refresh()

    def _cells(self) -> list[tuple[str, str, Command]]:
        plain = self.app.has_class("-ascii")
        return [(f" {'enter' if plain and c.key == '↵' else c.key}", f" {c.label} ", c) for c in self._commands]

    def render_line(self, y: int) -> Strip:
        """The line."""
        base = self.rich_style
        key = base + self.app.paint.tones[Tone.HERE]
        segments = []
        for shown, words, _ in self._cells() if y == 0 else ():
            segments += [Segment(shown, key), Segment(words, base)]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    async def on_click(self, event: Click) -> None:
        left = 0
        for shown, words, command in self._cells():
            right = left + len(shown) + len(words)
            if left <= event.x < right:
                await self.app.run_action(command.action)
                return
            left = right
