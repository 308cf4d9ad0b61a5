"""What all screens of a triage share: status and answer at the top, keys at the bottom, a filter in between."""

from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Input

from oncall.console.actions import COMMANDS, Command, allowed, by_action, footer
from oncall.console.clipboard import copy
from oncall.console.lines import Tone, plain_row
from oncall.console.orders import Note
from oncall.console.saving import keep
from oncall.console.screens.dialogs import Ask, Tell
from oncall.console.snapshot import Snapshot
from oncall.console.views.headline import headline
from oncall.console.views.help import help_rows
from oncall.console.widgets.keybar import KeyBar
from oncall.console.widgets.listing import Listing
from oncall.console.widgets.statusbar import StatusBar
from oncall.report.markdown import as_markdown

if TYPE_CHECKING:
    from oncall.console.host import Host

NORMAL_WIDTH = 116
"""Columns from which on nothing has to be left out."""


class TriageScreen(Screen[None]):
    """A screen that shows the newest snapshot. `NAME` is how actions call it, `ABOUT` what its help says."""

    app: "Host"
    NAME: ClassVar[str] = ""
    ABOUT: ClassVar[str] = ""
    AUTO_FOCUS = "Listing"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["triage.tcss"]

    def __init__(self) -> None:
        super().__init__()
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NORMAL_WIDTH, "-normal"), (170, "-wide")]

    def compose(self) -> ComposeResult:
        """Top, body, filter, keys."""
        yield StatusBar()
        yield Listing(name="answer", id="answer", cursor=False)
        with Container(id="body"):
            yield from self.compose_body()
        box = Input(placeholder="only rows that hold this text; enter keeps it, escape shows all again", id="filter")
        message = Listing(name="message", id="message", cursor=False)
        box.cursor_blink = box.display = message.display = False
        yield box
        yield message
        yield KeyBar()

    def compose_body(self) -> ComposeResult:
        """What the screen shows between the answer and the keys."""
        yield from ()

    @property
    def stands(self) -> bool:
        """Whether it is on top with all its panes: not while it is built, nor once it or the console goes."""
        return self.is_mounted and self.is_attached and self.is_active and self.app.is_running

    def on_screen_resume(self) -> None:
        """Catch up with what was told while another screen was on top."""
        if self.stands:
            self.show(self.app.snapshot)

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self.query_one(StatusBar).show(snapshot)
        self.query_one("#answer", Listing).show([headline(snapshot)])
        self.show_body(snapshot)
        self.query_one(KeyBar).show(tuple(footer(self.NAME, **self.app.circumstances)))

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot in the screen's own panes."""

    def tell(self, text: str) -> None:
        """Say what became of the last key, or with no text nothing any more."""
        line = self.query_one("#message", Listing)
        if not text and not line.display:
            return
        line.display = bool(text)
        line.show([plain_row("message", f" {text}", Tone.HERE)] if text else [])

    def tick(self, now: datetime) -> None:
        """A second has passed."""
        for bar in self.query(StatusBar):
            bar.tick(now)

    @property
    def focused_listing(self) -> Listing | None:
        """The list that has the focus."""
        return self.focused if isinstance(self.focused, Listing) else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The screen's own commands work only where they can be given now: `--read-only` runs nothing."""
        command = by_action(action)
        return command is None or (self.stands and allowed(command, **self.app.circumstances))

    def copied_text(self) -> str | None:
        """What `y` takes: that of the row under the cursor."""
        listing = self.focused_listing
        return listing.row.copies if listing and listing.row else None

    def open_row(self) -> None:
        """What enter does on the row under the cursor."""

    def action_open(self) -> None:
        """Open what is under the cursor."""
        self.open_row()

    def action_copy(self) -> None:
        """Copy what is under the cursor, and say what became of it."""
        text = self.copied_text()
        if text is None:
            self.tell("nothing to copy in this row")
            return
        self.tell(copy(text, self.app.write_control))

    def action_export(self) -> None:
        """Save the screen as text."""
        self.tell(keep(self.app.bundle, f"screen-{self.NAME}.txt", self.as_text()))

    def action_summary(self) -> None:
        """Save the incident as Markdown, and copy it."""
        report = self.app.snapshot.report
        if report is None:
            self.tell("no summary yet: the walk has not come to a conclusion")
            return
        text = as_markdown(report)
        self.tell(f"{keep(self.app.bundle, 'summary.md', text)}; {copy(text, self.app.write_control)}")

    def action_note(self) -> None:
        """Ask for a note."""
        rows = [plain_row("note", "A note for the timeline, kept with the incident", Tone.STRONG)]
        self.app.push_screen(Ask(rows, prompt="your note"), self._take_note)

    def _take_note(self, text: str | None) -> None:
        if text:
            self.app.order(Note(text))
            self.tell("noted; the timeline (7) has it")

    def action_help(self) -> None:
        """What the pane with the focus shows, and all keys."""
        pane = self.focused.name if self.focused else None
        self.app.push_screen(Tell(help_rows(self.ABOUT, pane, self.commands())))

    def commands(self) -> list[Command]:
        """What can be done on this screen now."""
        return [each for each in COMMANDS if allowed(each, **self.app.circumstances) and self._has(each)]

    def _has(self, command: Command) -> bool:
        place, _, name = command.action.rpartition(".")
        return place != "screen" or hasattr(self, f"action_{name}")

    def as_text(self) -> str:
        """All that the screen holds, also what is scrolled out of sight."""
        parts = [self.query_one(StatusBar).text]
        parts += [each.text for each in self.query(Listing).results(Listing) if each.display and each.id != "message"]
        return "\n\n".join(part for part in parts if part) + "\n"

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
        """Escape: clear the filter, if there is one. Returns whether there was one."""
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
