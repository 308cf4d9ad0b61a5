"""Every screen as a picture and as text, from recorded incidents, the same each time.

`SCREENSHOTS=write` writes them into `screenshots/` and beside this file; `SCREENSHOTS=FOLDER` writes a picture of every
screen in every state there. Look at them before they are kept.
"""

import getpass
import os
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from textual.pilot import Pilot

from oncall.console.app import DemoConsole
from oncall.console.console import Console
from oncall.console.host import Looks
from oncall.console.snapshot import Snapshot
from oncall.rehearse.incidents import incidents

from .conftest import NOW
from .states import STATES, StillConsole, all_states
from .waiting import press, settled, until

PICTURES = Path(__file__).parents[2] / "screenshots"
TEXTS = Path(__file__).parent / "screens"

HANG, HARDWARE, SLOW = "hang-by-code", "hang-by-hardware", "slowdown-by-throttling"
SCREENS = {
    "incident": (HANG, "1"),
    "guided": ("guided", "1"),
    "stacks": (HANG, "2"),
    "flight": (HANG, "3"),
    "metrics": (SLOW, "4"),
    "hardware": (HARDWARE, "5"),
    "nodes": (HANG, "6"),
    "timeline": (HANG, "7"),
    "compare": (HANG, "c"),
    "act": (HARDWARE, "x"),
    "help": (HANG, "question_mark"),
}
"""Screen → the incident that fills it, and its key. What is before an incident is the same for all."""
SIZES = {80: 24, 120: 34}
THEMES = ("dark", "light")

Page = tuple[str, str, int]
"""Screen, state, width."""


@pytest.fixture(scope="module", autouse=True)
def _one_machine() -> Iterator[None]:
    """Nothing of this machine stands in a picture."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("COLORFGBG", "NO_COLOR", "TMUX", "TERM_PROGRAM"):
            patch.delenv(name, raising=False)
        patch.setattr(socket, "gethostname", lambda: "login01")
        patch.setattr(getpass, "getuser", lambda: "ada")
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def states(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Snapshot]]:
    return await all_states(tmp_path_factory.mktemp("states"))


@asynccontextmanager
async def still(snapshot: Snapshot, *, ascii_signs: bool = False) -> AsyncIterator[tuple[Console, "Pilot[int]"]]:
    looks = Looks(theme="dark", ascii_signs=ascii_signs, clock=lambda: NOW)
    console = StillConsole(snapshot, looks)
    async with console.run_test(size=(120, SIZES[120])) as pilot:
        yield console, pilot


def text_of(console: Console) -> str:
    return "\n".join(strip.text.rstrip() for strip in console.screen._compositor.render_strips()) + "\n"


async def pictured(console: Console, pilot: "Pilot[int]", themes: Sequence[str] = THEMES) -> dict[str, str]:
    """Theme → SVG of what stands on the screen."""
    pictures = {}
    for theme in reversed(themes):
        console.theme = theme
        await settled(pilot)
        pictures[theme] = console.export_screenshot(title="oncall")
    return pictures


def is_kept(screen: str, state: str, width: int, theme: str) -> bool:
    """Whether there is a picture: of the whole state always, of the others where all were asked for."""
    under_way = (screen, width, theme) == ("incident", 120, "dark")
    return state == "full" or under_way or os.environ.get("SCREENSHOTS", "write") != "write"


def shown_in(incident: str, state: str) -> Iterator[tuple[str, str]]:
    """The screens that this snapshot fills, each with its key."""
    for screen, (source, key) in SCREENS.items():
        if incident == source or (incident == HANG and state in STATES[:2] and source in {HARDWARE, SLOW}):
            yield screen, key


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages(states: Mapping[str, Mapping[str, Snapshot]]) -> dict[Page, tuple[str, dict[str, str]]]:
    """Every screen in every state and size: its text, and its picture in each theme."""
    made: dict[Page, tuple[str, dict[str, str]]] = {}
    for incident, its_states in states.items():
        for state, snapshot in its_states.items():
            async with still(snapshot) as (console, pilot):
                for width, height in SIZES.items():
                    await pilot.resize_terminal(width, height)
                    await until(pilot, lambda size=(width, height): console.screen.size == size)
                    for screen, key in shown_in(incident, state):
                        await press(pilot, "1", key)
                        await settled(pilot)
                        kept = [theme for theme in THEMES if is_kept(screen, state, width, theme)]
                        made[screen, state, width] = text_of(console), await pictured(console, pilot, kept)
                        await press(pilot, *["escape"] * (len(console.screen_stack) - 1))
                        console.tell("")
    return made


def agree(path: Path, made: str) -> None:
    """What was made is what is kept; writes it first where that was asked for."""
    if os.environ.get("SCREENSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(made, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    assert kept == made, f"{path.name} has changed; SCREENSHOTS=write writes it anew, then look at it"


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_screen_as_text_in_each_state(screen: str, width: int, pages: dict[Page, tuple[str, dict[str, str]]]) -> None:
    texts = [pages[screen, state, width][0] for state in STATES]
    assert all(len(line) <= width for text in texts for line in text.splitlines())
    agree(
        TEXTS / f"{screen}-{width}.txt",
        "\n".join(f"{'=' * 8} {state}\n{text}" for state, text in zip(STATES, texts, strict=True)),
    )


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
def test_screen_as_picture(screen: str, width: int, theme: str, pages: dict[Page, tuple[str, dict[str, str]]]) -> None:
    agree(PICTURES / f"{screen}-{width}-{theme}.svg", pages[screen, "full", width][1][theme])


@pytest.mark.parametrize("state", STATES[:3])
def test_incident_under_way_as_picture(state: str, pages: dict[Page, tuple[str, dict[str, str]]]) -> None:
    agree(PICTURES / f"incident-{state}-120-dark.svg", pages["incident", state, 120][1]["dark"])


def test_all_of_them_to_look_at(pages: dict[Page, tuple[str, dict[str, str]]]) -> None:
    folder = os.environ.get("SCREENSHOTS", "write")
    if folder == "write":
        pytest.skip("SCREENSHOTS names no folder for them")
    for (screen, state, width), (_, pictures) in pages.items():
        for theme, svg in pictures.items():
            Path(folder, f"{screen}-{state}-{width}-{theme}.svg").write_text(svg, encoding="utf-8")


@pytest.mark.parametrize("width", SIZES)
async def test_the_choice_of_incidents(width: int, tmp_path: Path) -> None:
    recorded = {name: (each.title, each.bundle) for name, each in incidents().items()}
    console = DemoConsole(recorded, tmp_path, Looks(theme="dark", clock=lambda: NOW))
    async with console.run_test(size=(width, SIZES[width])) as pilot:
        await settled(pilot)
        text, pictures = text_of(console), await pictured(console, pilot)
    agree(TEXTS / f"picker-{width}.txt", text)
    for theme, svg in pictures.items():
        agree(PICTURES / f"picker-{width}-{theme}.svg", svg)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("state", STATES)
async def test_ascii_signs_are_all_ascii(state: str, states: Mapping[str, Mapping[str, Snapshot]]) -> None:
    for incident, its_states in states.items():
        if state not in its_states:
            continue
        async with still(its_states[state], ascii_signs=True) as (console, pilot):
            for _, key in shown_in(incident, state):
                await press(pilot, "1", key)
                await settled(pilot)
                text = text_of(console)
                assert text.isascii(), [line for line in text.splitlines() if not line.isascii()]
                await press(pilot, "escape")


@pytest.mark.asyncio(loop_scope="module")
async def test_without_colour_every_word_still_stands_out(
    states: Mapping[str, Mapping[str, Snapshot]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR leaves greys alone, and none of them is the colour of its own background."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with still(states[HANG]["full"]) as (console, _):
        for strip in console.screen._compositor.render_strips():
            seen = strip
            for each in console._filters:
                seen = seen.apply_filter(each, console.screen.background_colors[1])
            for segment in seen:
                style = segment.style
                if style and re.search(r"\w", segment.text) and style.color and style.bgcolor:
                    fore, back = style.color.get_truecolor(), style.bgcolor.get_truecolor()
                    assert max(abs(a - b) for a, b in zip(fore, back, strict=True)) > 60, segment.text
