"""Where every rank stands: one call tree, the group under the cursor, and two groups beside each other."""

from pathlib import PurePath
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container

from oncall.console.lines import Row, Tone, heading, plain_row
from oncall.console.orders import ShowRaw
from oncall.console.screens.dialogs import Choose
from oncall.console.screens.triage import TriageScreen
from oncall.console.snapshot import Snapshot
from oncall.console.views.stacks import beside_rows, group_rows, ranks_of, stack_rows
from oncall.console.widgets.listing import Listing
from oncall.report.seen import StackRow

_MOST_CHOICES = 256


class StacksScreen(TriageScreen):
    """The merged tree above, one group or two below."""

    NAME = "stacks"
    ABOUT = (
        "The Python stacks of all ranks as one tree, read from the outermost call inwards; ranks that stand alike are "
        "one row, and the smallest sets come first: the odd one out is often the origin. Below stands the group under "
        "the cursor, innermost frame first. `d` marks it, and the cursor lays any other beside it until the next `d`."
    )
    CSS_PATH: ClassVar[list[str | PurePath]] = ["triage.tcss", "stacks.tcss"]

    def __init__(self) -> None:
        super().__init__()
        self._marked: StackRow | None = None

    def compose_body(self) -> ComposeResult:
        """Tree, and two panes below it."""
        yield Listing(name="tree", id="calls", wrapped=False, marks=True)
        with Container(id="groups"):
            yield Listing(name="group", id="left")
            yield Listing(name="beside", id="right")

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        calls = self.query_one("#calls", Listing)
        rows = stack_rows(snapshot, self.app.glyphs)
        calls.show(rows)
        if self._group() is None:
            calls.put_cursor(next((row.key for row in rows if isinstance(row.about, StackRow)), ""))
        self._show_group()

    def on_listing_moved(self, event: Listing.Moved) -> None:
        """Another group is under the cursor."""
        if event.listing.id == "calls":
            self._show_group()

    def _group(self) -> StackRow | None:
        row = self.query_one("#calls", Listing).row
        return row.about if row and isinstance(row.about, StackRow) else None

    def _show_group(self) -> None:
        group, marked = self._group(), self._marked
        left, right = self.query_one("#left", Listing), self.query_one("#right", Listing)
        right.display = marked is not None
        if marked is not None and group is not None:
            first, second = beside_rows(marked, group, self.app.glyphs)
            left.show(first)
            right.show(second)
        else:
            left.show(group_rows(group) if group else _no_group())

    def filtered(self) -> list[Listing]:
        """The tree."""
        return [self.query_one("#calls", Listing)]

    def action_side_by_side(self) -> None:
        """Mark the group under the cursor, or let the mark go."""
        self._marked = None if self._marked is not None else self._group()
        if self._marked is not None:
            self.tell("marked; move to another set of ranks to lay it beside this one, d or escape lets the mark go")
        self._show_group()

    def leave(self) -> bool:
        """Escape: the filter first, then the mark."""
        if super().leave():
            return True
        marked, self._marked = self._marked, None
        self._show_group()
        return marked is not None

    def open_row(self) -> None:
        """Show py-spy's own output for one rank of the group."""
        group = self._group()
        if group is None:
            return
        ranks = tuple(ranks_of(group, _MOST_CHOICES))
        if len(ranks) == 1:
            self.app.order(ShowRaw("stack", ranks[0]))
            return
        rows = [heading("the raw stack of which rank?"), *(plain_row(str(rank), f"rank {rank}") for rank in ranks)]
        self.app.push_screen(Choose(rows), lambda key: self.app.order(ShowRaw("stack", int(key))) if key else None)


def _no_group() -> list[Row]:
    return [plain_row("none", "the cursor stands on no set of ranks", Tone.DIM)]
