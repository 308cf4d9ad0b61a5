"""The application: it shows the snapshots of a triage, and turns keys into orders."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePath
from typing import ClassVar

from textual.binding import BindingType
from textual.command import Provider
from textual.css.query import NoMatches
from textual.events import Event, Key
from textual.screen import Screen
from textual.scrollbar import ScrollBar
from textual.worker import WorkerFailed

from oncall.bundle.store import Bundle
from oncall.console.actions import ANYWHERE, allowed, bindings, by_action
from oncall.console.bundles import fresh_bundle
from oncall.console.host import Heard, Host, Looks
from oncall.console.lines import heading, plain_row
from oncall.console.orders import Back, ChoosePlaybook, FindEarlier, Guide, RenewProbe, RenewStep
from oncall.console.palette import Commands
from oncall.console.screens.catalogue import load_screens, screen_of
from oncall.console.screens.dialogs import Choose
from oncall.console.screens.incident import IncidentScreen
from oncall.console.screens.triage import TriageScreen
from oncall.console.snapshot import Snapshot
from oncall.console.told import RawText, Word
from oncall.console.widgets.scrollbar import WholeCells
from oncall.errors import OncallError

TERMINATED = 143

_ALL = "*"
_STEP = "."
_HERE = Path(__file__).parent


class Console(Host):
    """The application. `open_bundle` begins or takes up a triage; all else follows from its snapshots."""

    TITLE = "oncall"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Commands}
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        _HERE / "screens/triage.tcss",
        _HERE / "screens/incident.tcss",
    ]

    def __init__(self, looks: Looks | None = None, *, deadline_s: float | None = None) -> None:
        super().__init__(looks, deadline_s=deadline_s)
        ScrollBar.renderer = WholeCells
        self._kept: dict[str, Screen[None]] = {}

    def on_mount(self) -> None:
        """Begin to tick, and leave in order when the terminal goes or the system asks."""
        self.set_interval(1.0, self._tick)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.exit, TERMINATED)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)

    def open_bundle(self, bundle: Bundle, snapshot: Snapshot) -> None:
        """Begin a triage, and load the other screens once the first one stands."""
        super().open_bundle(bundle, snapshot)
        self.call_after_refresh(self.call_later, load_screens)

    def _hang_up(self) -> None:
        """Leave; where the terminal is gone, without a last word to it: Textual (8.2) would wait for ever to say it."""
        if os.isatty(0):
            self.exit(TERMINATED)
        else:
            os._exit(TERMINATED)

    def on_heard(self, event: Heard) -> None:
        """Show the newest snapshot, or the raw text that was asked for."""
        if not self.is_of_now(event):
            return
        match event.told:
            case RawText():
                self.push_screen(screen_of("raw", event.told))
            case Word():
                self.tell(event.told.text)
            case Snapshot():
                self.snapshot = event.told
                if screen := self.triage_screen:
                    screen.show(self.snapshot)

    async def on_event(self, event: Event) -> None:
        """What became of a key is said until the next one."""
        if isinstance(event, Key) and (screen := self.triage_screen):
            screen.tell("")
        await super().on_event(event)

    async def on_unmount(self) -> None:
        """Let the nodes go."""
        await self.close_bundle()

    def _handle_exception(self, error: Exception) -> None:
        """Fail, unless it is left already: a palette that is still built then misses what is gone (Textual 8.2)."""
        if self.return_value is None or not isinstance(error, NoMatches | WorkerFailed):
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Leave the terminal in order; Textual would print every local variable of every frame (8.2)."""
        if os.environ.get("ONCALL_DEBUG"):
            super()._fatal_error()
        else:
            self._close_messages_no_wait()

    @property
    def triage_screen(self) -> TriageScreen | None:
        """The screen of the triage, where one stands on top; none while the console closes, when Textual has none."""
        screen = self.screen if self.is_running else None
        return screen if isinstance(screen, TriageScreen) and screen.stands else None

    @property
    def failure(self) -> Exception | None:
        """What ended the console, if it did not end by itself."""
        return self._exception

    def tell(self, text: str) -> None:
        """Say what became of the last key, on the screen that is shown."""
        if screen := self.triage_screen:
            screen.tell(text)

    def _tick(self) -> None:
        if screen := self.triage_screen:
            screen.tick(self.clock())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands work on the screens of a triage alone, and those that cannot be given now do nothing."""
        command = by_action(action)
        if command is None or action in ANYWHERE:
            return True
        return self.triage_screen is not None and allowed(command, **self.circumstances)

    def action_show(self, name: str) -> None:
        """Show a screen of the triage in place of the one that is shown."""
        if (screen := self.triage_screen) and name == screen.NAME:
            return
        while not isinstance(self.screen, IncidentScreen):
            self.pop_screen()
        if name != IncidentScreen.NAME:
            if name not in self._kept:
                self._kept[name] = screen_of(name)
                self.install_screen(self._kept[name], name)
            self.push_screen(name)

    def action_out(self) -> None:
        """One level out: a filter or message first, then the screen."""
        if (screen := self.triage_screen) and screen.leave():
            return
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.tell("this is the outermost screen; q leaves")

    def action_guide(self) -> None:
        """Step by step, or by itself again."""
        self.action_show(IncidentScreen.NAME)
        self.order(Guide(not self.circumstances["guided"]))

    def action_step_back(self) -> None:
        """Take the last step back."""
        self.order(Back())

    def action_again(self) -> None:
        """Ask the nodes again: all of it as a new triage, or one probe."""
        rows = [heading("ask again")]
        if self.snapshot.proposal is not None:
            rows.append(plain_row(_STEP, "this step: what its verdict needs"))
        rows.append(plain_row(_ALL, "everything, as a new triage laid beside this one"))
        rows += [plain_row(each.name, f"{each.name} alone") for each in self.snapshot.probes]
        self.push_screen(Choose(rows), self._again)

    def _again(self, chosen: str | None) -> None:
        if chosen == _ALL:
            try:
                bundle = fresh_bundle(self.bundle)
            except OncallError as error:
                self.tell(f"no new triage: {error.cause}")
                return
            start = replace(self.snapshot.start, started=bundle.manifest.started, bundle=str(bundle.path))
            self.open_bundle(bundle, Snapshot(start, guided=self.snapshot.guided, before=self.snapshot.report))
        elif chosen is not None:
            self.order(RenewStep() if chosen == _STEP else RenewProbe(chosen))

    def action_playbook(self) -> None:
        """Choose another playbook."""
        rows = [heading("walk which playbook?"), *(plain_row(name, name) for name in self.snapshot.playbooks)]
        self.push_screen(Choose(rows), lambda name: self.order(ChoosePlaybook(name)) if name else None)

    def action_compare(self) -> None:
        """Lay the triage before this one beside it."""
        self.order(FindEarlier())
        self.action_show("compare")

    def action_theme(self) -> None:
        """Dark to light, or back."""
        self.theme = "light" if self.theme == "dark" else "dark"

    async def action_quit(self) -> None:
        """Leave."""
        self.exit(0)
