"""Waits for what the console's own thread brings, never for a time."""

from collections.abc import Callable

from textual.pilot import Pilot

_MOST_TURNS = 2000


async def until(pilot: "Pilot[int]", holds: Callable[[], object]) -> None:
    """Let the application run until something holds; fails when it never does."""
    for _ in range(_MOST_TURNS):
        if holds():
            await pilot.pause()
            return
        await pilot.pause(0.01)
    raise AssertionError("what was waited for did not come about")
