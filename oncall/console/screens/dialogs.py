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
        """The rows; keys scroll them."""
        listing = Listing(name="told", id="told", cursor=False)
        listing.show(self._rows)
        listing.can_focus = True
        with Vertical(id="dialog", classes="large"):
            yield listing


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
        self._choices = Listing(name="choices", id="choices")

    def compose(self) -> ComposeResult:
        """The rows."""
        self._choices.show(self._rows)
        with Vertical(id="dialog"):
            yield self._choices

    def action_take(self) -> None:
        """Answer with the row under the cursor."""
        row = self._choices.row
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
        about = Listing(name="about", id="about", cursor=False)
        about.show(self._rows)
        line = Input(placeholder=self._prompt, id="line")
        line.cursor_blink = False  # which would repaint twice a second, over a slow link too
        with Vertical(id="dialog"):
            yield about
            yield line

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the line, if it is one that can be taken; a second enter comes when the answer was given."""
        typed = event.value.strip()
        if not typed or not self.is_active:
            return
        if self._expected is not None and typed != self._expected:
            line = event.input
            line.value = ""
            line.placeholder = f"that is not {self._expected}; type it exactly, or escape"
            return
        self.dismiss(typed)
