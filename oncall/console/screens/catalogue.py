"""The screens by name, each loaded when it is first shown or once there is time."""

import asyncio
import gc
import importlib
from types import ModuleType

from textual.screen import Screen

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


def screen_of(name: str, *given: object) -> Screen[None]:
    """A screen by its name."""
    module, kind = _SCREENS[name]
    screen: Screen[None] = getattr(_load(module), kind)(*given)
    return screen


async def load_screens() -> None:
    """Load the other screens once the first one stands, with all that a report is made of: 0.2 s, off the loop."""
    for module, _ in _SCREENS.values():
        await asyncio.to_thread(_load, module)
    # All of it stays. Looking through it for garbage stops the screen for 50 ms.
    gc.freeze()


def _load(module: str) -> ModuleType:
    return importlib.import_module(f"oncall.console.screens.{module}")
