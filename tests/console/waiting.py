"""Waits for what the console's own thread brings and for what follows from a key, never for a time."""

import time
from collections.abc import Callable

from textual.pilot import Pilot

_PATIENCE_S = 120.0
"""A guard against waiting for ever: more than a triage may take in all."""


async def settled(pilot: "Pilot[int]") -> None:
    """Return when nothing is left to be handled or drawn, or the console has ended.

    Textual's pilot takes a process for idle that uses no processor time, as it does on a machine that is busy with
    others. A pause lets each widget handle what it was sent, which may send more; the second quiet one in a row tells
    that nobody was still at it.
    """
    quiet, end = 0, time.monotonic() + _PATIENCE_S
    while quiet < 2 and pilot.app.is_running:
        assert time.monotonic() < end, "something follows for ever"
        await pilot.pause(0)
        widgets = [widget for screen in pilot.app.screen_stack for widget in screen.walk_children(with_self=True)]
        busy = any(each.message_queue_size for each in (pilot.app, *widgets))
        quiet = 0 if busy or not all(widget.is_mounted for widget in widgets) else quiet + 1


async def press(pilot: "Pilot[int]", *keys: str) -> None:
    """Press keys, each when all that followed from the one before it is done."""
    for key in keys:
        await pilot.press(key)
        await settled(pilot)


async def until(pilot: "Pilot[int]", holds: Callable[[], object]) -> None:
    """Let the application run until something holds; fails when it never does."""
    end = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "what was waited for did not come about"
        await pilot.pause(0.01)
    await settled(pilot)
