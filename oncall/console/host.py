"""What screens and widgets may ask of the application: looks, clock, newest snapshot, a place for orders."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from textual.app import App
from textual.message import Message

from oncall.bundle.store import Bundle
from oncall.console.glyphs import ASCII, UNICODE, Glyphs
from oncall.console.orders import Order
from oncall.console.session import Session
from oncall.console.snapshot import Snapshot
from oncall.console.themes import THEMES, Paint, paint, theme_for
from oncall.console.told import Told


@dataclass(frozen=True, slots=True)
class Looks:
    """How the console looks and what time it is: what a test or an option fixes."""

    ascii_signs: bool = False
    theme: str | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)


class Heard(Message):
    """What a triage told."""

    def __init__(self, session: Session, told: Told) -> None:
        super().__init__()
        self.session = session
        self.told = told


class Host(App[int]):
    """The application without its screens. It holds at most one triage, of `bundle`, whose newest is `snapshot`."""

    def __init__(self, looks: Looks | None = None, *, deadline_s: float | None = None) -> None:
        super().__init__()
        self._looks = looks or Looks()
        self._deadline_s = deadline_s
        self._session: Session | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._painted: tuple[str, Paint] | None = None
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
        """What decides which commands can be given; a walk that has ended has no step left to confirm or overrule."""
        start = self.snapshot.start
        guided = self.snapshot.guided and self.snapshot.report is None
        return {"read_only": start.read_only, "live": start.live, "guided": guided}

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

    def open_bundle(self, bundle: Bundle, snapshot: Snapshot) -> None:
        """Begin a triage in place of any that is under way."""
        self.leave_bundle()
        self.bundle, self.snapshot = bundle, snapshot
        session = Session(bundle, snapshot, lambda told: self._told(session, told), deadline_s=self._deadline_s)
        self._session = session
        self.call_after_refresh(session.start)

    def leave_bundle(self) -> None:
        """End the triage, and wait for nothing; what it gathered is kept."""
        if self._session is not None:
            task = asyncio.create_task(asyncio.to_thread(self._session.stop), name="leave")
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
            self._session = None

    async def close_bundle(self) -> None:
        """End the triage, and wait until its nodes were let go."""
        self.leave_bundle()
        await asyncio.gather(*self._leaving)

    def _told(self, session: Session, told: Told) -> None:
        self.post_message(Heard(session, told))

    def is_of_now(self, heard: Heard) -> bool:
        """Whether it is the present triage that told this, to a console that is not about to close."""
        return self.is_running and heard.session is self._session

    def order(self, order: Order) -> None:
        """Hand an order to the triage."""
        if self._session is not None:
            self._session.give(order)

    def write_control(self, sequence: str) -> None:
        """Send a control sequence to the terminal."""
        if self._driver is not None:
            self._driver.write(sequence)
