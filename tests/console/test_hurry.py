"""What comes sooner than a screen is built, or than it is gone: snapshots, keys, a second enter, the end."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import msgspec
import pytest
import pytest_asyncio
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from oncall.console.host import Heard, Looks
from oncall.console.lines import plain_row
from oncall.console.screens.dialogs import Ask, Choose, Tell
from oncall.console.screens.incident import IncidentScreen
from oncall.console.screens.metrics import MetricsScreen
from oncall.console.screens.raw import RawScreen
from oncall.console.screens.triage import TriageScreen
from oncall.console.snapshot import Snapshot
from oncall.console.told import RawText
from oncall.console.widgets.listing import Listing
from oncall.rehearse.incidents import incidents
from oncall.report.panels import Panel
from oncall.report.triage import replay

from .conftest import NOW
from .states import StillConsole
from .test_views import snapshot_of
from .waiting import press, settled, until

NAMES = ("stacks", "flight", "metrics", "hardware", "nodes", "timeline", "compare")
ROWS = [plain_row("a", "one"), plain_row("b", "two")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def snapshot() -> Snapshot:
    """The end of a walk."""
    return snapshot_of(await replay(incidents()["hang-by-code"].bundle, lambda _: None))


def still(snapshot: Snapshot) -> StillConsole:
    return StillConsole(snapshot, Looks(theme="dark", clock=lambda: NOW))


@pytest.fixture
async def open_console(snapshot: Snapshot) -> AsyncIterator[tuple[StillConsole, "Pilot[int]"]]:
    console = still(snapshot)
    async with console.run_test(size=(100, 30)) as pilot:
        yield console, pilot


def hear(console: StillConsole, told: Snapshot) -> None:
    console.on_heard(Heard(console._session, told))  # type: ignore[arg-type]


async def test_a_snapshot_that_comes_while_a_screen_is_built_is_shown_once_it_stands(
    open_console: tuple[StillConsole, "Pilot[int]"],
) -> None:
    console, pilot = open_console
    for name in NAMES:
        console.action_show(name)
        hear(console, replace(console.snapshot, problem=f"too early for {name}", report=None))
        await settled(pilot)
        assert isinstance(console.screen, TriageScreen)
        assert name == console.screen.NAME
        assert f"too early for {name}" in console.screen.query_one("#answer", Listing).text


@pytest.mark.parametrize("key", ["filter", "copy", "export", "side_by_side", "retry"])
async def test_a_key_for_a_screen_that_is_not_built_yet_does_nothing(
    key: str, open_console: tuple[StillConsole, "Pilot[int]"]
) -> None:
    console, pilot = open_console
    for name in NAMES:
        console.action_show(name)
        await console.run_action(f"screen.{key}")
        console.tell("said too early")
        await settled(pilot)
        assert isinstance(console.screen, TriageScreen)
        assert not console.screen.query_one("#filter").display
        assert not console.screen.query_one("#message").display


async def test_escape_leaves_a_screen_that_is_not_built_yet(
    open_console: tuple[StillConsole, "Pilot[int]"],
) -> None:
    console, pilot = open_console
    console.action_show("timeline")
    console.action_out()
    await settled(pilot)
    assert isinstance(console.screen, IncidentScreen)


SCREENS: dict[str, Callable[[], Screen[None] | Screen[str | None]]] = {
    "tell": lambda: Tell(ROWS),
    "choose": lambda: Choose(ROWS),
    "ask": lambda: Ask(ROWS, prompt="why?"),
    "raw": lambda: RawScreen(RawText("stack of rank 5", ("one", "two"))),
}


@pytest.mark.parametrize("kind", SCREENS)
async def test_a_screen_that_goes_before_it_was_built_goes(
    kind: str, open_console: tuple[StillConsole, "Pilot[int]"]
) -> None:
    console, pilot = open_console
    console.push_screen(SCREENS[kind]())
    console.pop_screen()
    await settled(pilot)
    assert isinstance(console.screen, IncidentScreen)


@pytest.mark.parametrize("kind", ["palette", *SCREENS, *NAMES])
async def test_the_end_may_come_while_a_screen_is_built(kind: str, snapshot: Snapshot) -> None:
    console = still(snapshot)

    async def leave(pilot: "Pilot[int]") -> None:
        await settled(pilot)
        if kind in SCREENS:
            console.push_screen(SCREENS[kind]())
        elif kind in NAMES:
            console.action_show(kind)
        else:
            console.action_command_palette()
        console.exit(0)

    assert await console.run_async(headless=True, size=(100, 30), auto_pilot=leave) == 0
    assert console.failure is None


async def test_enter_in_a_list_that_is_not_built_yet_takes_nothing(
    open_console: tuple[StillConsole, "Pilot[int]"],
) -> None:
    console, pilot = open_console
    answers: list[str | None] = []
    choose = Choose(ROWS)
    console.push_screen(choose, answers.append)
    await console.run_action("take", choose)
    assert answers == []
    await settled(pilot)
    await press(pilot, "down", "enter")
    assert answers == ["b"]


async def test_a_second_enter_answers_nothing_again_and_closes_no_other_screen(
    open_console: tuple[StillConsole, "Pilot[int]"],
) -> None:
    console, pilot = open_console
    answers: list[str | None] = []
    console.push_screen(Ask(ROWS, prompt="why?"), answers.append)
    await until(pilot, lambda: isinstance(console.focused, Input))
    await press(pilot, *"seen")
    line = console.screen.query_one(Input)
    for _ in range(2):
        await line.action_submit()
    await settled(pilot)
    assert answers == ["seen"]
    assert isinstance(console.screen, IncidentScreen)


async def test_panels_that_go_and_come_back_at_once_are_all_shown(
    open_console: tuple[StillConsole, "Pilot[int]"],
) -> None:
    console, pilot = open_console
    await press(pilot, "4")
    report = console.snapshot.report
    assert report is not None
    for count in (3, 1, 3):
        panels = tuple(
            Panel(question=f"Question {number}?", query="q", verdict="unknown", reason="no such series")
            for number in range(count)
        )
        hear(console, replace(console.snapshot, report=msgspec.structs.replace(report, panels=panels)))
    await settled(pilot)
    assert isinstance(console.screen, MetricsScreen)
    shown = [each for each in console.screen.query("#panels Listing").results(Listing) if each.display]
    assert [f"Question {number}?" in each.text for number, each in enumerate(shown)] == [True] * 3
