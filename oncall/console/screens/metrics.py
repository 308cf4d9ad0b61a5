"""The metric queries side by side."""

from itertools import zip_longest
from pathlib import PurePath
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import VerticalScroll

from oncall.console.screens.triage import TriageScreen
from oncall.console.snapshot import Snapshot
from oncall.console.views.metrics import no_panels, panel_rows
from oncall.console.widgets.listing import Listing


class MetricsScreen(TriageScreen):
    """A grid of panels, one a query."""

    NAME = "metrics"
    ABOUT = (
        "Each panel is one query: the question, the verdict, the number that proves it with host and GPU, what it was "
        "before, the threshold, and the query itself, which `y` copies. Left of the gap in the bars is the stretch "
        "that is compared with, right of it now. UNKNOWN says what is missing."
    )
    CSS_PATH: ClassVar[list[str | PurePath]] = ["triage.tcss", "metrics.tcss"]

    def compose_body(self) -> ComposeResult:
        """The grid."""
        yield VerticalScroll(id="panels", can_focus=False)

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot: as many panes as there are panels, each filled anew; those that are not needed wait."""
        grid = self.query_one("#panels", VerticalScroll)
        panels = snapshot.known.panels if snapshot.known else ()
        filled = [panel_rows(panel, self.app.glyphs) for panel in panels] or [no_panels(snapshot)]
        grid.set_class(not panels, "-empty")
        panes = list(grid.query(Listing).results(Listing))
        for index in range(len(panes), len(filled)):
            panes.append(Listing(name=f"panel {index + 1}", id=f"panel-{index}"))
            grid.mount(panes[-1])
        for pane, rows in zip_longest(panes, filled):
            pane.display = rows is not None
            pane.show(rows or [])
        if self.focused is None:
            panes[0].focus()
