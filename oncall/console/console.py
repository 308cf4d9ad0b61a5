"""The application: it shows the snapshots of a triage, and turns keys into orders."""

import asyncio
import gc
import importlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from types import ModuleType
from typing import ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.command import Provider
from textual.message import Message
from textual.screen import Screen
from textual.scrollbar import ScrollBar

from oncall.bundle.store import Bundle
from oncall.console.actions import allowed, bindings, by_action
from oncall.console.bundles import fresh_bundle
from oncall.console.glyphs import ASCII, UNICODE, Glyphs
from oncall.console.lines import heading, plain_row
from oncall.console.orders import Back, ChoosePlaybook, FindEarlier, Guide, Order, RenewProbes
from oncall.console.palette import Commands
from oncall.console.raw_text import RawText
from oncall.console.screens.dialogs import Choose
from oncall.console.screens.incident import IncidentScreen
from oncall.console.screens.triage import TriageScreen
from oncall.console.session import Session, Told
from oncall.console.snapshot import Snapshot
from oncall.console.themes import THEMES, Paint, paint, theme_for
from oncall.console.widgets.scrollbar import WholeCells

TERMINATED = 143

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Looks:
    """How the console looks and what time it is: what a test or an option fixes."""

    ascii_signs: bool = False
    theme: str | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


class Heard(Message):
    """What the triage's thread told."""

    def __init__(self, session: Session, told: Told) -> None:
        super().__init__()
        self.session = session
        self.told = told


class Console(App[int]):
    """The application. `open_bundle` begins or takes up a triage; all else follows from its snapshots."""

    TITLE = "oncall"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Commands}
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        _HERE / "screens/triage.tcss",
        _HERE / "screens/incident.tcss",
    ]

    def __init__(self, looks: Looks | None = None, *, deadline_s: float | None = None) -> None:
        super().__init__()
        ScrollBar.renderer = WholeCells
        self._looks = looks or Looks()
        self._deadline_s = deadline_s
        self._session: Session | None = None
        self._painted: tuple[str, Paint] | None = None
        self._kept: dict[str, Screen[None]] = {}
        self.animation_level = "none"
        self.glyphs: Glyphs = ASCII if self._looks.ascii_signs else UNICODE
        self.bundle: Bundle
        self.snapshot: Snapshot
        for each in THEMES:
            self.register_theme(each)
        self.theme = self._looks.theme or theme_for(os.environ)
        self.set_class(self._looks.ascii_signs, "-ascii")

    @property
    def circumstances(self) -> Mapping[str, bool]:
        """What decides which commands can be given."""
        start = self.snapshot.start
        return {"read_only": start.read_only, "live": start.live, "guided": self.snapshot.guided}

    @property
    def paint(self) -> Paint:
        """The styles of the theme that is in use."""
        if self._painted is None or self._painted[0] != self.theme:
            self._painted = self.theme, paint(self.current_theme)
        return self._painted[1]

    def clock(self) -> datetime:
        """The time now, in UTC."""
        return self._looks.clock()

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The tones, for a theme that does not have them."""
        return dict(THEMES[0].variables)

    def on_mount(self) -> None:
        """Begin to tick, and leave in order when the terminal goes or the system asks."""
        self.set_interval(1.0, self._tick)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.exit, TERMINATED)

    def open_bundle(self, bundle: Bundle, snapshot: Snapshot) -> None:
        """Begin a triage in place of any that is under way."""
        self.close_bundle()
        self.bundle, self.snapshot = bundle, snapshot
        session = Session(bundle, snapshot, lambda told: self._hear(session, told), deadline_s=self._deadline_s)
        self._session = session
        self.call_after_refresh(session.start)
        self.call_after_refresh(self.call_later, _load_screens)

    def close_bundle(self) -> None:
        """End the triage; what it gathered is kept."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def _hear(self, session: Session, told: Told) -> None:
        self.post_message(Heard(session, told))

    def on_heard(self, event: Heard) -> None:
        """Show the newest snapshot, or the raw text that was asked for."""
        if event.session is not self._session:
            return
        if isinstance(event.told, RawText):
            self.push_screen(_screen("raw", event.told))
            return
        self.snapshot = event.told
        if isinstance(self.screen, TriageScreen):
            self.screen.show(self.snapshot)

    def on_unmount(self) -> None:
        """Let the nodes go."""
        self.close_bundle()

    def _fatal_error(self) -> None:
        """Leave the terminal in order; Textual would print every local variable of every frame (8.2)."""
        if os.environ.get("ONCALL_DEBUG"):
            super()._fatal_error()
        else:
            self._close_messages_no_wait()

    @property
    def failure(self) -> Exception | None:
        """What ended the console, if it did not end by itself."""
        return self._exception

    def order(self, order: Order) -> None:
        """Hand an order to the triage."""
        if self._session is not None:
            self._session.give(order)

    def write_control(self, sequence: str) -> None:
        """Send a control sequence to the terminal."""
        if self._driver is not None:
            self._driver.write(sequence)

    def tell(self, text: str) -> None:
        """Say what became of the last key."""
        if isinstance(self.screen, TriageScreen):
            self.screen.tell(text)

    def _tick(self) -> None:
        if isinstance(self.screen, TriageScreen):
            self.screen.tick(self.clock())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Commands work on the screens of a triage alone, and those that cannot be given now do nothing."""
        command = by_action(action)
        if command is None or action in _ANYWHERE:
            return True
        return isinstance(self.screen, TriageScreen) and allowed(command, **self.circumstances)

    def action_show(self, name: str) -> None:
        """Show a screen of the triage in place of the one that is shown."""
        if isinstance(self.screen, TriageScreen) and name == self.screen.NAME:
            return
        while not isinstance(self.screen, IncidentScreen):
            self.pop_screen()
        if name != IncidentScreen.NAME:
            if name not in self._kept:
                self._kept[name] = _screen(name)
                self.install_screen(self._kept[name], name)
            self.push_screen(name)

    def action_out(self) -> None:
        """One level out: a filter or message first, then the screen."""
        if isinstance(self.screen, TriageScreen) and self.screen.leave():
            return
        if len(self.screen_stack) > 1:
            self.pop_screen()
        else:
            self.tell("this is the outermost screen; q leaves")

    def action_guide(self) -> None:
        """Step by step, or by itself again."""
        self.action_show(IncidentScreen.NAME)
        self.order(Guide(not self.snapshot.guided))

    def action_step_back(self) -> None:
        """Take the last step back."""
        self.order(Back())

    def action_again(self) -> None:
        """Ask the nodes again: all of it as a new triage, or one probe."""
        rows = [heading("ask again"), plain_row(_ALL, "everything, as a new triage laid beside this one")]
        rows += [plain_row(each.name, f"{each.name} alone") for each in self.snapshot.probes]
        self.push_screen(Choose(rows), self._again)

    def _again(self, chosen: str | None) -> None:
        if chosen == _ALL:
            bundle, before = fresh_bundle(self.bundle), self.snapshot.report
            start = replace(self.snapshot.start, started=bundle.manifest.started, bundle=str(bundle.path))
            self.open_bundle(bundle, Snapshot(start, before=before))
        elif chosen is not None:
            self.order(RenewProbes((chosen,)))

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


_ALL = "*"
_ANYWHERE = frozenset({"out", "theme", "quit"})

_SCREENS = {
    "stacks": ("stacks", "StacksScreen"),
    "flight": ("flight", "FlightScreen"),
    "metrics": ("metrics", "MetricsScreen"),
    "hardware": ("tables", "HardwareScreen"),
    "nodes": ("tables", "NodesScreen"),
    "timeline": ("tables", "TimelineScreen"),
    "compare": ("tables", "CompareScreen"),
    "raw": ("raw", "RawScreen"),
}


def _screen(name: str, *given: object) -> Screen[None]:
    """A screen by its name."""
    module, kind = _SCREENS[name]
    screen: Screen[None] = getattr(_load(module), kind)(*given)
    return screen


async def _load_screens() -> None:
    """Load the other screens once the first one stands, with all that a report is made of: 0.2 s, off the loop."""
    for module, _ in _SCREENS.values():
        await asyncio.to_thread(_load, module)
    # All of it stays. Looking through it for garbage stops the screen for 50 ms.
    gc.freeze()


def _load(module: str) -> ModuleType:
    return importlib.import_module(f"oncall.console.screens.{module}")
