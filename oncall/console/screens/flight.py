"""The Flight Recorder: the last collectives of each group that hangs, and the raw entries of a rank."""

from pathlib import PurePath
from typing import ClassVar

from textual.app import ComposeResult

from oncall.console.lines import heading, plain_row
from oncall.console.orders import ShowRaw
from oncall.console.screens.dialogs import Choose
from oncall.console.screens.triage import NORMAL_WIDTH, TriageScreen
from oncall.console.snapshot import Snapshot
from oncall.console.views.flight import origin_rows, table_rows
from oncall.console.widgets.listing import Listing
from oncall.flight_recorder.collective_table import CollectiveTable
from oncall.run.nodes import expand_ranks


class FlightScreen(TriageScreen):
    """One table a group, ranks that did the same in one column."""

    NAME = "flight"
    ABOUT = (
        "PyTorch's Flight Recorder keeps the last collectives of every rank. A row is one sequence number of a process "
        "group, a column a set of ranks with the same history, the smallest first. `waits` is an operation that was "
        "issued and has not ended; `not issued` is a rank that never came. Enter shows the raw entries of one rank."
    )
    CSS_PATH: ClassVar[list[str | PurePath]] = ["triage.tcss", "flight.tcss"]

    def __init__(self) -> None:
        super().__init__()
        self._shown = False

    def compose_body(self) -> ComposeResult:
        """The tables, and what follows from them."""
        yield Listing(name="collectives", id="collectives", wrapped=False, marks=True)
        yield Listing(name="origins", id="origins")

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        collectives = self.query_one("#collectives", Listing)
        rows = table_rows(snapshot, self.app.glyphs, narrow=self.size.width < NORMAL_WIDTH)
        collectives.show(rows)
        if not self._shown and (
            hanging := next((row.key for row in rows if row.text.startswith(self.app.glyphs.here)), None)
        ):
            self._shown = True
            collectives.put_cursor(hanging)
        origins, below = self.query_one("#origins", Listing), origin_rows(snapshot)
        origins.display = bool(below)
        origins.show(below)

    def open_row(self) -> None:
        """Choose a rank: one of each column of the table, or the suspects."""
        row = self.query_one("#collectives", Listing).row
        known = self.app.snapshot.known
        ranks = [suspect.rank for suspect in known.suspects] if known else []
        if row is not None and isinstance(row.about, CollectiveTable):
            ranks = [rank for column in row.about.columns for rank in expand_ranks(column)[:8]]
        if ranks:
            rows = [heading("the entries of which rank?"), *(plain_row(str(rank), f"rank {rank}") for rank in ranks)]
            self.app.push_screen(Choose(rows), lambda key: self.app.order(ShowRaw("dump", int(key))) if key else None)
