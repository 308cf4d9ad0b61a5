"""The console driven by keys alone, on recorded incidents."""

import base64
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle
from oncall.console.actions import COMMANDS, footer
from oncall.console.app import BundleConsole, DemoConsole
from oncall.console.host import Looks
from oncall.console.screens.incident import IncidentScreen
from oncall.console.screens.triage import TriageScreen
from oncall.console.widgets.listing import Listing
from oncall.playbook.events import Noted
from oncall.playbook.journal import read_journal
from oncall.rehearse.incidents import incidents

from .conftest import NOW, ConsoleOf
from .waiting import press, until

SCREENS = {"2": "stacks", "3": "flight", "4": "metrics", "5": "hardware", "6": "nodes", "7": "timeline", "c": "compare"}


def name_of(console: BundleConsole | DemoConsole) -> str:
    screen = console.screen
    return screen.NAME if isinstance(screen, TriageScreen) else type(screen).__name__


@pytest.mark.parametrize("name", ["hang-by-hardware", "slowdown-by-throttling"])
async def test_from_the_demo_to_the_copied_exclude_command_in_two_keys(name: str, tmp_path: Path) -> None:
    recorded = {each: (incident.title, incident.bundle) for each, incident in incidents().items()}
    console = DemoConsole(recorded, tmp_path, Looks(theme="dark", clock=lambda: NOW))
    sent: list[str] = []
    async with console.run_test(size=(120, 34)) as pilot:
        console.write_control = sent.append  # type: ignore[method-assign]
        await press(pilot, str(list(recorded).index(name) + 1))
        await until(pilot, lambda: isinstance(console.screen, IncidentScreen) and console.snapshot.report)
        await press(pilot, "y")
        await until(pilot, lambda: sent)
    copied = (tmp_path / "state" / "oncall" / "copied.txt").read_text()
    assert re.match(r"scontrol update nodename=node002 state=drain reason='oncall: .*'$", copied)
    assert sent == [f"\x1b]52;c;{base64.b64encode(copied.encode()).decode()}\a"]


async def test_every_screen_is_one_key_away_and_escape_leads_back(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    console = console_of(incident("hang-by-code"))
    async with console.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        for key, screen in SCREENS.items():
            await press(pilot, key)
            assert name_of(console) == screen
            assert isinstance(console.focused, Listing)
            await press(pilot, "escape")
            assert name_of(console) == "incident"
        await press(pilot, "escape")
        assert name_of(console) == "incident"
        await press(pilot, "2", "6", "3")
        assert name_of(console) == "flight", "one screen takes the place of another"
        await press(pilot, "escape")
        assert name_of(console) == "incident"


def test_no_key_stands_for_two_things() -> None:
    keys = [key for command in COMMANDS for key in command.keys.split(",")]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("screen", ["incident", *SCREENS.values()])
@pytest.mark.parametrize("guided", [False, True])
def test_the_footer_is_short_and_fits_the_narrowest_screen(screen: str, guided: bool) -> None:
    commands = list(footer(screen, read_only=False, live=True, guided=guided))
    assert 1 < len(commands) <= 8
    assert sum(len(f" {each.key} {each.label} ") for each in commands) <= 80


def stands(console: BundleConsole) -> object:
    """What a key may change: the screens, and what they say."""
    text = [strip.text for strip in console.screen._compositor.render_strips()]
    return list(console.screen_stack), text, console.snapshot.guided


@pytest.mark.parametrize("name", ["hang-by-code", "hang-of-the-network", "slowdown-by-throttling"])
async def test_each_key_of_each_footer_does_something(
    name: str, incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    """A key that changes neither the screens nor the text on them does nothing."""
    console = console_of(incident(name))
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        for way, screen in [((), "incident"), *(((key,), screen) for key, screen in SCREENS.items())]:
            for command in list(footer(screen, **console.circumstances)):
                await press(pilot, *way)
                assert name_of(console) == screen
                before = stands(console)
                await press(pilot, command.keys.split(",")[0])
                await until(pilot, lambda before=before: stands(console) != before)
                while len(console.screen_stack) > 1:
                    await press(pilot, "escape")
                console.tell("")
                if console.snapshot.guided:
                    await press(pilot, "g")
                    await until(pilot, lambda: not console.snapshot.guided and console.snapshot.report)


async def test_the_filter_keeps_rows_that_hold_the_text(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    console = console_of(incident("hang-by-code"))
    async with console.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "7")
        table = console.screen.query_one("#table", Listing)
        everything = table.text
        await press(pilot, "slash", *"watchdog", "enter")
        kept = [line for line in table.text.splitlines()[1:] if line]
        assert kept
        assert all("watchdog" in line.lower() for line in kept)
        assert len(kept) < len(everything.splitlines()) - 1
        await press(pilot, "escape")
        assert table.text == everything


async def test_a_note_is_kept_with_the_incident(incident: Callable[[str], Bundle], console_of: ConsoleOf) -> None:
    bundle = incident("hang-by-code")
    console = console_of(bundle)
    async with console.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "7", "n", *"paged", "enter")
        await until(pilot, lambda: any(line.text == "paged" for line in console.snapshot.journal))
        assert "paged" in console.screen.query_one("#table", Listing).text
    assert [event.text for event in read_journal(bundle) if isinstance(event, Noted)] == ["paged"]


async def test_help_tells_of_every_key_that_works_here(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    console = console_of(incident("hang-by-code"))
    async with console.run_test(size=(100, 50)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "question_mark")
        told = console.screen.query_one("#told", Listing).text
        await press(pilot, "escape")
        assert name_of(console) == "incident"
    elsewhere = {"screen.retry", "screen.side_by_side"}
    unable = {command.action for command in COMMANDS if command.asks or command.guided} | elsewhere
    assert {command.action for command in COMMANDS if command.help not in told} == unable


async def test_a_filter_that_nothing_holds_says_so_and_leaves_what_to_do(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    console = console_of(incident("hang-by-hardware"))
    async with console.run_test(size=(100, 40)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "slash", *"zzz", "enter")
        panes = {each.id: each.text for each in console.screen.query(Listing).results(Listing)}
        assert "no row holds this text" in panes["suspects"]
        assert "scontrol" in str(panes["do"])


async def test_on_a_small_screen_a_pane_that_is_read_takes_the_room_of_the_answer(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    console = console_of(incident("hang-by-code"))
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        panes = console.screen.query_one("#panes")
        before = panes.size.height
        await pilot.press("tab")
        await until(pilot, lambda: panes.size.height >= before + 5)
        await pilot.press("shift+tab")
        await until(pilot, lambda: panes.size.height == before)


@pytest.mark.parametrize("opens", [["question_mark"], ["p"], ["n"], ["ctrl+p"], ["slash"], ["g", "o"]])
async def test_control_c_leaves_from_anywhere(
    opens: list[str], incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    console = console_of(incident("hang-by-code"))
    async with console.run_test(size=(100, 50)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        for key in opens:
            before = stands(console)
            await press(pilot, key)
            await until(pilot, lambda before=before: stands(console) != before)
            await until(pilot, lambda: not console.snapshot.guided or console.snapshot.proposal)
        await press(pilot, "ctrl+c")
        await until(pilot, lambda: not console.is_running)
    assert console.return_code == 0


async def test_the_raw_stack_of_the_odd_rank_is_two_keys_away(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    console = console_of(incident("hang-by-data"))
    async with console.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "2", "enter")
        await until(pilot, lambda: name_of(console) == "raw")
        shown = console.screen.query_one("#lines", Listing).text
        assert '"MainThread"' in shown
        assert "torch/utils/data/dataloader.py" in shown
        await press(pilot, "escape")
        assert name_of(console) == "stacks"


async def test_light_and_dark_change_places(incident: Callable[[str], Bundle], console_of: ConsoleOf) -> None:
    console = console_of(incident("hang-by-code"))
    async with console.run_test(size=(100, 30)) as pilot:
        await press(pilot, "T")
        assert console.theme == "light"
        await press(pilot, "T")
        assert console.theme == "dark"
