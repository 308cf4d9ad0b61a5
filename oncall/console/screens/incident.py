"""The incident: what it is, what to do, the path that the walk took, its evidence, and the suspects."""

import getpass
import socket
from pathlib import PurePath
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.events import DescendantFocus

from oncall.console.lines import Tone, heading, plain_row
from oncall.console.orders import Act, Confirm, Overrule, ShowRaw
from oncall.console.screens.dialogs import Ask, Choose
from oncall.console.screens.triage import TriageScreen
from oncall.console.snapshot import Snapshot
from oncall.console.views.headline import Runnable, actions, moments, standing_against
from oncall.console.views.step import step_rows
from oncall.console.views.suspects import suspect_rows
from oncall.console.views.tree import tree_rows
from oncall.console.widgets.listing import Listing

_PANES = ("suspects", "step", "tree")


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
    CSS_PATH: ClassVar[list[str | PurePath]] = ["triage.tcss", "incident.tcss"]

    def __init__(self) -> None:
        super().__init__()
        self._answered = False

    def compose_body(self) -> ComposeResult:
        """Actions, the three panes, what speaks against it, and the moments."""
        yield Listing(name="actions", id="do")
        with Horizontal(id="panes"):
            yield Listing(name="playbook", id="tree", wrapped=False, marks=True)
            with Container(id="evidence"):
                yield Listing(name="step", id="step")
                yield Listing(name="suspects", id="suspects")
        yield Listing(name="against", id="against")
        yield Listing(name="moments", id="moments", wrapped=False, cursor=False)

    def show_body(self, snapshot: Snapshot) -> None:
        """Show a snapshot; the tree's cursor follows the walk until the operator moves it."""
        glyphs = self.app.glyphs
        do, rows = self.query_one("#do", Listing), actions(snapshot)
        do.show(rows)
        against = self.query_one("#against", Listing)
        against.show(standing_against(snapshot))
        if snapshot.report is not None and not self._answered:
            do.put_cursor(next((row.key for row in rows if row.copies), ""))
            against.action_edge(-1)
        self._answered = snapshot.report is not None
        tree = self.query_one("#tree", Listing)
        tree.show(tree_rows(snapshot, glyphs))
        if not tree.has_focus:
            tree.put_cursor(self._most_telling(snapshot))
        self._show_step(snapshot, tree.row.key if tree.row else None)
        self.query_one("#suspects", Listing).show(suspect_rows(snapshot, glyphs))
        self.query_one("#moments", Listing).show([moments(snapshot, glyphs)])

    def filtered(self) -> list[Listing]:
        """The panes; what to do and when to escalate stay."""
        return [self.query_one(f"#{pane}", Listing) for pane in _PANES]

    def open_row(self) -> None:
        """Enter: in guided mode the proposal holds; else what is under the cursor."""
        snapshot, listing = self.app.snapshot, self.focused_listing
        if snapshot.proposal is not None:
            self.app.order(Confirm())
        elif listing is not None and listing.id == "tree":
            self.query_one("#step", Listing).focus()
        elif listing is not None and listing.row and isinstance(listing.row.about, int):
            self.app.order(ShowRaw("stack", listing.row.about))
        else:
            self.tell("nothing to open here; y copies what is under the cursor")

    def action_act(self) -> None:
        """Show exactly what would run, and run it once what it is about was typed."""
        row = self.query_one("#do", Listing).row
        action = row.about if row and isinstance(row.about, Runnable) else None
        if action is None:
            none = "only commands of the run file's [actions] are run from here; y copies this one"
            if row is None or row.copies is None:
                none = "this action has no command: the run file has no template for it under [actions]"
            self.tell(none if self.app.snapshot.report else "nothing to run yet: the walk goes on")
            return
        command, target = action.command, action.target
        rows = [
            heading(f"runs on this machine ({socket.gethostname()}) as {getpass.getuser()}, and nowhere else"),
            plain_row("command", f"$ {command}", Tone.STRONG),
            plain_row("target", f"It is about {target}. Type that to run it; escape leaves everything as it is."),
        ]
        asking = Ask(rows, prompt=f"type {target}", expected=target)
        self.app.push_screen(asking, lambda typed: self._act(command, typed))

    def _act(self, command: str, typed: str | None) -> None:
        if typed is None:
            self.tell("nothing was run")
        else:
            self.app.order(Act(command, typed))
            self.tell(f"running: {command}; the timeline (7) tells how it ends")

    def action_overrule(self) -> None:
        """Ask for the operator's verdict, then for the reason."""
        snapshot = self.app.snapshot
        if snapshot.proposal is None or snapshot.playbook is None or snapshot.here is None:
            self.tell("there is no proposed verdict to overrule; g walks step by step")
            return
        step = snapshot.playbook.steps[snapshot.here]
        rows = [heading(step.ask)]
        rows += [plain_row(verdict, f"{verdict:<16} leads to {target}") for verdict, target in step.branches.items()]
        self.app.push_screen(Choose(rows), self._ask_why)

    def _ask_why(self, verdict: str | None) -> None:
        if verdict is None:
            return
        rows = [plain_row("verdict", f"Your verdict: {verdict}", Tone.STRONG)]
        asking = Ask(rows, prompt="why? one line, kept with the incident")
        self.app.push_screen(asking, lambda why: self.app.order(Overrule(verdict, why)) if why else None)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """On a small screen the panes take the room of the answer while one of them is read."""
        self.set_class(event.widget.id in _PANES, "-reading")

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
