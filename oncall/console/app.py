"""The console: one application that shows the snapshots of a triage and takes the operator's keys."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.message import Message
from textual.screen import Screen

from oncall.bundle.store import Bundle
from oncall.console.actions import bindings
from oncall.console.glyphs import ASCII, UNICODE, Glyphs
from oncall.console.screens.incident import IncidentScreen
from oncall.console.screens.triage import TriageScreen
from oncall.console.session import Session, Told
from oncall.console.snapshot import Snapshot, Start
from oncall.console.themes import THEMES, theme_for


class SnapshotTold(Message):
    """A newer picture of the triage."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot


class Console(App[int]):
    """The application."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    CSS_PATH: ClassVar[list[str]] = ["screens/triage.tcss", "screens/incident.tcss"]

    def __init__(
        self,
        bundle: Bundle,
        first: Snapshot,
        *,
        ascii_signs: bool = False,
        clock: Callable[[], datetime] | None = None,
        theme: str | None = None,
        deadline_s: float | None = None,
    ) -> None:
        super().__init__()
        self.animation_level = "none"
        self.glyphs: Glyphs = ASCII if ascii_signs else UNICODE
        self.clock = clock or (lambda: datetime.now(UTC))
        self.snapshot = first
        for each in THEMES:
            self.register_theme(each)
        self.theme = theme or theme_for(os.environ)
        self.set_class(ascii_signs, "-ascii")
        self._session = Session(bundle, first, self._told, deadline_s=deadline_s)

    @property
    def circumstances(self) -> dict[str, bool]:
        start = self.snapshot.start
        return {"read_only": start.read_only, "live": start.live, "guided": self.snapshot.guided}

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return dict(THEMES[0].variables)

    def get_default_screen(self) -> Screen[None]:
        return IncidentScreen()

    def on_mount(self) -> None:
        self.set_interval(1.0, self._tick)
        self.call_after_refresh(self._session.start)

    def _tick(self) -> None:
        if isinstance(self.screen, TriageScreen):
            self.screen.tick(self.clock())

    def _told(self, told: Told) -> None:
        if isinstance(told, Snapshot):
            self.post_message(SnapshotTold(told))

    def on_snapshot_told(self, event: SnapshotTold) -> None:
        self.snapshot = event.snapshot
        if isinstance(self.screen, TriageScreen):
            self.screen.show(event.snapshot)

    def on_unmount(self) -> None:
        self._session.stop()


def run_console(bundle: Bundle, *, live: bool, read_only: bool = False, guide: bool = False) -> int:
    start = Start(
        run=bundle.manifest.run,
        started=bundle.manifest.started,
        bundle=str(bundle.path),
        live=live,
        read_only=read_only,
    )
    Console(bundle, Snapshot(start, guided=guide)).run()
    return 0
