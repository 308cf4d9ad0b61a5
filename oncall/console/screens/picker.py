"""The recorded incidents, to choose one."""

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from oncall.console.lines import Line, Row, Span, Tone, heading, say
from oncall.console.widgets.listing import Listing

if TYPE_CHECKING:
    from oncall.console.host import Host

_NAME = 28


class PickerScreen(Screen[None]):
    """One row an incident."""

    app: "Host"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["triage.tcss", "picker.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", show=False),
        *(Binding(str(number), f"take({number})", show=False) for number in range(1, 10)),
    ]

    class Chosen(Message):
        """The incident of this name is to be opened."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, titles: Mapping[str, str]) -> None:
        super().__init__()
        self._titles = titles
        self._listing = Listing(name="incidents", id="incidents")

    def compose(self) -> ComposeResult:
        """Heading, list, keys; none of them changes."""
        words = "Recorded incidents: real jobs that were made to hang or to slow down. Nothing is asked of any node."
        head = Listing(name="heading", id="heading", cursor=False)
        head.show([Row("heading", (Span(words, Tone.STRONG),))])
        self._listing.show([heading("choose one"), *self._rows()])
        keys = Listing(name="keys", id="picker-keys", cursor=False)
        keys.show([Row("keys", self._keys())])
        yield head
        yield self._listing
        yield keys

    def _rows(self) -> Iterator[Row]:
        for number, (name, title) in enumerate(self._titles.items(), 1):
            spans = (Span(f"{number:>2} ", Tone.STRONG), say(f"{name:<{_NAME}}", Tone.HERE), say(title))
            yield Row(name, spans, hang=_NAME + 3)

    def _keys(self) -> Line:
        numbers = f"1-{min(9, len(self._titles))}" if len(self._titles) > 1 else "1"
        return Span(f" enter {numbers}", Tone.HERE), Span(" open  "), Span("q", Tone.HERE), Span(" quit")

    def action_take(self, number: int | None = None) -> None:
        """Open the incident of this number, without one that under the cursor."""
        row = self._listing.row
        names = list(self._titles)
        if number is None and row is not None and not row.fixed:
            self.post_message(self.Chosen(row.key))
        elif number is not None and number <= len(names):
            self.post_message(self.Chosen(names[number - 1]))

    def on_screen_resume(self) -> None:
        """Back from an incident: end it."""
        self.app.leave_bundle()
