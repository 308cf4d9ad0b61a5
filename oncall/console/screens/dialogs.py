"""Small screens on top of another: ask for a word, choose from a list, tell something."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from oncall.console.lines import Row
from oncall.console.widgets.listing import Listing


class Tell(ModalScreen[None]):
    """Rows to read; any of escape, enter, q closes it."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,question_mark", "dismiss", show=False)]

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows

    def compose(self) -> ComposeResult:
        """The rows."""
        with Vertical(id="dialog", classes="large"):
            yield Listing(name="told", id="told", cursor=False)

    def on_mount(self) -> None:
        """Fill the list; keys scroll it."""
        listing = self.query_one(Listing)
        listing.show(self._rows)
        listing.can_focus = True
        listing.focus()


class Choose(ModalScreen[str | None]):
    """One of several rows; the answer is the key of the row, None for none."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", show=False),
        Binding("enter", "take", show=False),
    ]

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self._rows = rows

    def compose(self) -> ComposeResult:
        """The rows."""
        with Vertical(id="dialog"):
            yield Listing(name="choices", id="choices")

    def on_mount(self) -> None:
        """Fill the list."""
        self.query_one(Listing).show(self._rows)

    def action_take(self) -> None:
        """Answer with the row under the cursor."""
        row = self.query_one(Listing).row
        if row is not None and not row.fixed:
            self.dismiss(row.key)


class Ask(ModalScreen[str | None]):
    """A line of text. Where `expected` is given nothing else is taken, and what was typed wrong is said."""

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, rows: Sequence[Row], *, prompt: str, expected: str | None = None) -> None:
        super().__init__()
        self._rows = rows
        self._prompt = prompt
        self._expected = expected

    def compose(self) -> ComposeResult:
        """What it is about, and the line."""
        with Vertical(id="dialog"):
            yield Listing(name="about", id="about", cursor=False)
            yield Input(placeholder=self._prompt, id="line")

    def on_mount(self) -> None:
        """Fill in what it is about."""
        self.query_one(Listing).show(self._rows)
        line = self.query_one(Input)
        line.cursor_blink = False  # which would repaint twice a second, over a slow link too
        line.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the line, if it is one that can be taken."""
        typed = event.value.strip()
        if not typed:
            return
        if self._expected is not None and typed != self._expected:
            line = self.query_one(Input)
            line.value = ""
            line.placeholder = f"that is not {self._expected}; type it exactly, or escape"
            return
        self.dismiss(typed)
