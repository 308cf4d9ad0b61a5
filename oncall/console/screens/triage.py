"""What all screens of a triage share: status and answer at the top, keys at the bottom, a filter in between."""

from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Input

from oncall.console.actions import footer
from oncall.console.snapshot import Snapshot
from oncall.console.views.headline import headline
from oncall.console.widgets.keybar import KeyBar
from oncall.console.widgets.listing import Listing
from oncall.console.widgets.statusbar import StatusBar

if TYPE_CHECKING:
    from oncall.console.app import Console


class TriageScreen(Screen[None]):
    """A screen that shows the newest snapshot. `NAME` is how actions call it, `ABOUT` what its help says."""

    app: "Console"
    NAME: ClassVar[str] = ""
    ABOUT: ClassVar[str] = ""
    AUTO_FOCUS = "Listing"
    CSS_PATH = "triage.tcss"
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-short"), (30, "-tall")]
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-narrow"), (100, "-normal"), (180, "-wide")]

    def compose(self) -> ComposeResult:
        """Top, body, filter, keys."""
        yield StatusBar()
        yield Listing(name="answer", id="answer", cursor=False)
        with Container(id="body"):
            yield from self.compose_body()
        yield Input(placeholder="only rows that hold this text; enter keeps it, escape shows all again", id="filter")
        yield KeyBar()

    def compose_body(self) -> ComposeResult:
        """What the screen shows between the answer and the keys."""
        yield from ()

    def on_mount(self) -> None:
        """Hide the filter until it is asked for."""
        self.query_one("#filter", Input).display = False

    def on_screen_resume(self) -> None:
        """Catch up with what was told while another screen was on top."""
        self.show(self.app.snapshot)

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self.query_one(StatusBar).show(snapshot)
        self.query_one("#answer", Listing).show([headline(snapshot)])
        self.show_body(snapshot)
        self.query_one(KeyBar).show(tuple(footer(self.NAME, **self.app.circumstances)))

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot in the screen's own panes."""

    def tick(self, now: datetime) -> None:
        """A second has passed."""
        for bar in self.query(StatusBar):
            bar.tick(now)

    @property
    def focused_listing(self) -> Listing | None:
        """The list that has the focus."""
        return self.focused if isinstance(self.focused, Listing) else None

    def copied_text(self) -> str | None:
        """What `y` takes: that of the row under the cursor."""
        listing = self.focused_listing
        return listing.row.copies if listing and listing.row else None

    def open_row(self) -> None:
        """What enter does on the row under the cursor."""

    def action_filter(self) -> None:
        """Ask for the text that rows have to hold."""
        box = self.query_one("#filter", Input)
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        for listing in self.filtered():
            listing.filter(event.value)

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Keep the filter and go back to the list."""
        self._to_list()

    def filtered(self) -> list[Listing]:
        """The lists that the filter works on."""
        return [each for each in self.query("#body Listing").results(Listing) if each.can_focus]

    def leave(self) -> bool:
        """Escape: clear the filter, if there is one. Returns whether there was something to leave."""
        box = self.query_one("#filter", Input)
        if not box.display:
            return False
        box.value = ""
        self._to_list(hide=True)
        return True

    def _to_list(self, *, hide: bool = False) -> None:
        box = self.query_one("#filter", Input)
        if hide or not box.value:
            box.display = False
        for listing in self.filtered()[:1]:
            listing.focus()
