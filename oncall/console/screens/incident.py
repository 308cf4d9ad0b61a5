"""The incident: what it is, what to do, the path that the walk took, its evidence, and the suspects."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container, Horizontal

from oncall.console.screens.triage import TriageScreen
from oncall.console.snapshot import Snapshot
from oncall.console.views.headline import actions, moments, standing_against
from oncall.console.views.step import step_rows
from oncall.console.views.suspects import suspect_rows
from oncall.console.views.tree import tree_rows
from oncall.console.widgets.listing import Listing


class IncidentScreen(TriageScreen):
    """The first screen. The cursor in the tree chooses the step in the middle."""

    NAME = "incident"
    ABOUT = (
        "Top: what it is and how sure that is; DO holds what to do, `y` copies its command. Left: the steps of the "
        "playbook as they were walked, with the verdict of each. Middle: the step under the cursor, its evidence, and "
        "how to ask the same by hand. Right: the suspects with what each source says of them; those who only wait are "
        "folded into one row, and those who were not seen are named with the reason."
    )
    AUTO_FOCUS = "#do"
    CSS_PATH: ClassVar[list[str]] = ["triage.tcss", "incident.tcss"]

    def compose_body(self) -> ComposeResult:
        """Actions, the three panes, what speaks against it, and the moments."""
        yield Listing(name="actions", id="do")
        with Horizontal(id="panes"):
            yield Listing(name="playbook", id="tree", wrapped=False)
            with Container(id="evidence"):
                yield Listing(name="step", id="step")
                yield Listing(name="suspects", id="suspects")
        yield Listing(name="against", id="against", cursor=False)
        yield Listing(name="moments", id="moments", cursor=False)

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot; the tree's cursor follows the walk until the operator moves it."""
        glyphs = self.app.glyphs
        self.query_one("#do", Listing).show(actions(snapshot))
        tree = self.query_one("#tree", Listing)
        tree.show(tree_rows(snapshot, glyphs))
        if not tree.has_focus:
            tree.put_cursor(self._most_telling(snapshot))
        self._show_step(snapshot, tree.row.key if tree.row else None)
        self.query_one("#suspects", Listing).show(suspect_rows(snapshot, glyphs))
        self.query_one("#against", Listing).show(standing_against(snapshot))
        self.query_one("#moments", Listing).show([moments(snapshot, glyphs)])

    def on_listing_moved(self, event: Listing.Moved) -> None:
        """Another step is under the tree's cursor."""
        if event.listing.id == "tree":
            self._show_step(self.app.snapshot, event.row.key if event.row else None)

    def _show_step(self, snapshot: Snapshot, name: str | None) -> None:
        self.query_one("#step", Listing).show(step_rows(snapshot, name))

    def _most_telling(self, snapshot: Snapshot) -> str:
        """The step being walked, or of an ended walk the one that names the origin."""
        if snapshot.report is None:
            return snapshot.here or ""
        carrying = snapshot.report.verdict.rests_on[:1]
        for step in snapshot.report.steps:
            if carrying and carrying[0] in step.findings:
                return step.step
        return snapshot.report.verdict.conclusion
