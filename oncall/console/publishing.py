"""The newest snapshot of a triage: events are taken into it, kept in the bundle, and told soon after."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from oncall.bundle.store import Bundle
from oncall.console.progress import take_in, take_in_all
from oncall.console.snapshot import Snapshot
from oncall.console.told import Listener
from oncall.errors import OncallError
from oncall.playbook.events import WalkEvent

PUBLISH_EVERY_S = 0.15


class Publisher:
    """Holds the newest `snapshot` and tells it to `tell`; many changes within a moment are told once.

    `keeps` is whether events are kept in the bundle and in the journal: not those of a walk that is only replayed.
    """

    def __init__(self, bundle: Bundle, snapshot: Snapshot, tell: Listener) -> None:
        self.snapshot = snapshot
        self.keeps = snapshot.start.live
        self.tell = tell
        self._bundle = bundle
        self._due: asyncio.TimerHandle | None = None

    def publish(self, snapshot: Snapshot) -> None:
        """Tell of this snapshot soon."""
        self.snapshot = snapshot
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(PUBLISH_EVERY_S, self._flush)

    def recall(self, events: Iterable[WalkEvent]) -> None:
        """Take in what the bundle already holds."""
        self.publish(take_in_all(self.snapshot, events))

    def hear(self, event: WalkEvent) -> None:
        """Take an event in, and keep it where events are kept."""
        if self.keeps:
            self.keep(event)
        else:
            self.publish(replace(take_in(self.snapshot, event), journal=self.snapshot.journal))

    def keep(self, event: WalkEvent) -> None:
        """Take an event in and keep it, whatever becomes of others."""
        self.publish(take_in(self.snapshot, event))
        try:
            self._bundle.append_event(event)
        except OSError as error:
            self.mishap(f"the bundle cannot be written: {error}")

    def fail(self, why: str) -> None:
        """Tell why nothing more will come."""
        self.publish(replace(self.snapshot, problem=why))

    def mishap(self, why: str) -> None:
        """Tell what failed beside the walk, which goes on."""
        self.publish(replace(self.snapshot, mishap=why))

    def watch(self, task: "asyncio.Task[None]", tell: Callable[[str], None]) -> None:
        """Have it told why this task fails, should it do so."""

        def ended(task: "asyncio.Task[None]") -> None:
            if not task.cancelled() and (error := task.exception()):
                tell(cause_of(error))

        task.add_done_callback(ended)

    def _flush(self) -> None:
        self._due = None
        self.tell(self.snapshot)


def cause_of(error: BaseException) -> str:
    """Why something failed, in words for the screen."""
    if isinstance(error, OncallError):
        return "; ".join(error.cause.splitlines())
    return f"{type(error).__name__}: {error}"
