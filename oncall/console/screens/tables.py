"""The screens that are one table with the row under the cursor in full below it."""

from pathlib import PurePath
from typing import ClassVar

from textual.app import ComposeResult

from oncall.console.lines import NOTHING, Row, plain_row
from oncall.console.orders import AskAgain
from oncall.console.screens.triage import TriageScreen
from oncall.console.snapshot import Snapshot
from oncall.console.views.compare import change_rows, compare_rows
from oncall.console.views.hardware import event_rows, hardware_rows
from oncall.console.views.nodes import node_rows, one_node_rows
from oncall.console.views.timeline import timeline_rows
from oncall.console.widgets.listing import Listing
from oncall.report.model import Change
from oncall.report.seen import KernelRow, NodeRow


class TableScreen(TriageScreen):
    """A table, and below it what the cursor stands on."""

    CSS_PATH: ClassVar[list[str | PurePath]] = ["triage.tcss", "tables.tcss"]

    def compose_body(self) -> ComposeResult:
        """The table and the pane below."""
        yield Listing(name=self.NAME, id="table", wrapped=False, marks=True)
        yield Listing(name="in full", id="full")

    def on_listing_moved(self, event: Listing.Moved) -> None:
        """Another row is under the cursor."""
        if event.listing.id == "table":
            self._show_full()

    def filtered(self) -> list[Listing]:
        """The table."""
        return [self.query_one("#table", Listing)]

    def _fill(self, rows: "list[Row]") -> None:
        self.query_one("#table", Listing).show(rows)
        self._show_full()

    def _show_full(self) -> None:
        row, full = self.query_one("#table", Listing).row, self.query_one("#full", Listing)
        full.display = row is not None and not row.fixed and row.key != NOTHING
        full.show(self.in_full(row) if row is not None and full.display else [])

    def in_full(self, row: Row) -> list[Row]:
        """The row under the cursor, wrapped."""
        return [plain_row("full", row.text.strip(), copies=row.copies)]


class HardwareScreen(TableScreen):
    """What the kernels reported."""

    NAME = "hardware"
    ABOUT = (
        "Events of the kernel logs of all nodes: what should wake somebody first, then what no table knows, then the "
        "rest. Below stands the event under the cursor with what NVIDIA publishes about its Xid. A node whose log "
        "could not be read is named: it is not cleared."
    )

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self._fill(list(hardware_rows(snapshot)))

    def in_full(self, row: Row) -> list[Row]:
        """The event with what its code means."""
        return event_rows(row.about) if isinstance(row.about, KernelRow) else super().in_full(row)


class NodesScreen(TableScreen):
    """Who answered."""

    NAME = "nodes"
    ABOUT = (
        "Every node of the run, those that lack an answer first, each with the reason. A node that did not answer is "
        "neither healthy nor at fault. `R` asks the node under the cursor again."
    )

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self.query_one("#table", Listing).show(node_rows(snapshot))
        self._show_full()

    def in_full(self, row: Row) -> list[Row]:
        """The node with each probe."""
        return one_node_rows(row.about) if isinstance(row.about, NodeRow) else super().in_full(row)

    def action_retry(self) -> None:
        """Ask the node under the cursor again."""
        row = self.query_one("#table", Listing).row
        if row is not None and isinstance(row.about, NodeRow):
            self.app.order(AskAgain(row.about.host))
            self.tell(f"{row.about.host} is asked again")


class TimelineScreen(TableScreen):
    """Everything in order."""

    NAME = "timeline"
    ABOUT = (
        "What happened to the run, what this triage did, and what you did, in the order of time (UTC). `n` writes a "
        "note that is kept with the incident."
    )

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self._fill(list(timeline_rows(snapshot)))


class CompareScreen(TableScreen):
    """The triage before this one, beside it."""

    NAME = "compare"
    ABOUT = "What is not as it was in the triage before this one: was, and now. Below stands the change in full."

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self._fill(compare_rows(snapshot))

    def in_full(self, row: Row) -> list[Row]:
        """The change with all its words."""
        return change_rows(row.about) if isinstance(row.about, Change) else super().in_full(row)
