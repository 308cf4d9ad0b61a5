"""The recorded incidents, to choose one."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from oncall.console.lines import Row, Span, Tone, heading, say
from oncall.console.widgets.listing import Listing

if TYPE_CHECKING:
    from oncall.console.host import Host

_NAME = 28


class PickerScreen(Screen[None]):
    """One row an incident."""

    app: "Host"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["triage.tcss", "picker.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "take", show=False)]

    class Chosen(Message):
        """The incident of this name is to be opened."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, titles: Mapping[str, str]) -> None:
        super().__init__()
        self._titles = titles

    def compose(self) -> ComposeResult:
        """Heading, list, keys."""
        yield Listing(name="heading", id="heading", cursor=False)
        yield Listing(name="incidents", id="incidents")
        yield Listing(name="keys", id="picker-keys", cursor=False)

    def on_mount(self) -> None:
        """Fill the lists."""
        words = "Recorded incidents: real jobs that were made to hang or to slow down. Nothing is asked of any node."
        self.query_one("#heading", Listing).show([Row("heading", (Span(words, Tone.STRONG),))])
        rows = [heading("choose one")]
        rows += [
            Row(name, (say(f"{name:<{_NAME}}", Tone.HERE), say(title)), hang=_NAME)
            for name, title in self._titles.items()
        ]
        self.query_one("#incidents", Listing).show(rows)
        keys = (Span(" enter", Tone.HERE), Span(" open  "), Span("q", Tone.HERE), Span(" quit"))
        self.query_one("#picker-keys", Listing).show([Row("keys", keys)])
        self.query_one("#incidents", Listing).focus()

    def action_take(self) -> None:
        """Open the incident under the cursor."""
        row = self.query_one("#incidents", Listing).row
        if row is not None and not row.fixed:
            self.post_message(self.Chosen(row.key))

    def on_screen_resume(self) -> None:
        """Back from an incident: end it."""
        self.app.leave_bundle()
