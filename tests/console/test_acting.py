"""Running an action: what is shown is what runs, only after the host was typed, and it is kept."""

import asyncio
from collections.abc import Callable

import pytest

from oncall.bundle.store import Bundle
from oncall.console.acting import run_command
from oncall.console.screens.dialogs import Ask
from oncall.console.widgets.listing import Listing
from oncall.playbook.events import Acted, ActStarted
from oncall.playbook.journal import read_journal
from oncall.report.journal import journal_line

from .conftest import ConsoleOf
from .waiting import press, settled, until


@pytest.fixture
def harmless(incident: Callable[[str], Bundle]) -> Bundle:
    """The incident with a command that leaves a trace in the bundle and does nothing else."""
    bundle = incident("hang-by-hardware")
    trace = bundle.path / "trace"
    text = (bundle.read_text("run.toml") or "").splitlines()
    kept = [line if not line.startswith("exclude") else f'exclude = "echo {{host}} >> {trace}"' for line in text]
    bundle.write("run.toml", "\n".join(kept).encode())
    return bundle


def acts(bundle: Bundle) -> list[Acted]:
    return [event for event in read_journal(bundle) if isinstance(event, Acted)]


async def test_the_shown_command_runs_once_the_host_is_typed(harmless: Bundle, console_of: ConsoleOf) -> None:
    console = console_of(harmless)
    trace = harmless.path / "trace"
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "x")
        await until(pilot, lambda: isinstance(console.screen, Ask))
        shown = console.screen.query_one("#about", Listing).text
        await press(pilot, *"node001", "enter")
        assert isinstance(console.screen, Ask)
        assert not trace.exists()
        await press(pilot, *"node002", "enter")
        await until(pilot, lambda: any("exit code 0" in line.text for line in console.snapshot.journal))
    (acted,) = acts(harmless)
    assert f"$ {acted.command}" in shown
    assert (acted.host, acted.exit_code) == ("node002", 0)
    assert trace.read_text() == "node002\n"


async def test_an_action_that_the_operator_leaves_runs_on_and_is_kept(harmless: Bundle, console_of: ConsoleOf) -> None:
    folder, text = harmless.path, (harmless.read_text("run.toml") or "").splitlines()
    waits = f"touch {folder}/began; until [ -e {folder}/go ]; do sleep 0.05; done; echo {{host}} > {folder}/trace"
    kept = [line if not line.startswith("exclude") else f'exclude = "{waits}"' for line in text]
    harmless.write("run.toml", "\n".join(kept).encode())
    console = console_of(harmless)
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "x")
        await until(pilot, lambda: isinstance(console.screen, Ask))
        await press(pilot, *"node002", "enter")
        await until(pilot, (folder / "began").exists)
        assert [event.host for event in read_journal(harmless) if isinstance(event, ActStarted)] == ["node002"]
        await pilot.press("q")
    (acted,) = acts(harmless)
    assert (acted.host, acted.exit_code, acted.left) == ("node002", None, True)
    told = journal_line(acted)
    assert told is not None
    assert "still running when the console was left" in told.text
    (folder / "go").touch()
    async with asyncio.timeout(10):
        while not (folder / "trace").exists():
            await asyncio.sleep(0.02)


async def test_escape_runs_nothing(harmless: Bundle, console_of: ConsoleOf) -> None:
    console = console_of(harmless)
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "x")
        await until(pilot, lambda: isinstance(console.screen, Ask))
        await press(pilot, "escape")
        assert not isinstance(console.screen, Ask)
    assert acts(harmless) == []
    assert not (harmless.path / "trace").exists()


async def test_read_only_takes_the_key_away(harmless: Bundle, console_of: ConsoleOf) -> None:
    console = console_of(harmless, read_only=True)
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "x")
        await settled(pilot)
        assert not isinstance(console.screen, Ask)
        await console.run_action("screen.act")
        assert not isinstance(console.screen, Ask)


async def test_output_and_exit_code_are_kept() -> None:
    assert await run_command("echo drained; exit 3") == (3, "drained\n")


async def test_a_command_that_does_not_end_is_killed() -> None:
    exit_code, told = await run_command("sleep 600", deadline_s=0.2)
    assert exit_code is None
    assert "0.2 s" in told
