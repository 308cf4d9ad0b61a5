"""One rank's evidence as it came, line by line."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import ClassVar, overload

from textual.app import ComposeResult

from oncall.console.lines import Row, plain_row, say
from oncall.console.screens.triage import TriageScreen
from oncall.console.told import RawText
from oncall.console.widgets.listing import Listing


class RawRows(Sequence[Row]):
    """A row for each line, made when it is looked at."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return Row(f"line {index}", (say(self._lines[index]),), copies=self._lines[index])


class RawScreen(TriageScreen):
    """The lines, and the command that asks for the same by hand."""

    NAME = "raw"
    ABOUT = "The evidence of one rank exactly as it was brought; control characters are shown, not obeyed."
    CSS_PATH: ClassVar[list[str | PurePath]] = ["triage.tcss", "raw.tcss"]
    AUTO_FOCUS = "#lines"

    def __init__(self, raw: RawText) -> None:
        super().__init__()
        self._raw = raw

    def compose_body(self) -> ComposeResult:
        """Title with the command, and lines; neither changes."""
        by_hand = f"   by hand: {self._raw.by_hand}" if self._raw.by_hand else ""
        title = Listing(name="title", id="title", cursor=False)
        title.show([plain_row("title", f" {self._raw.title}{by_hand}")])
        lines = Listing(name="raw", id="lines", wrapped=False)
        lines.show(RawRows(self._raw.lines))
        yield title
        yield lines
