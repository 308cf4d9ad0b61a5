"""The console in a real terminal: tmux, real keys, real signals."""

import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle

from .tmux import REPLAY, Tmux, script

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

_DEMO = """
import sys
from pathlib import Path
from oncall.console.app import run_demo
from oncall.rehearse.incidents import incidents
names = ("hang-by-hardware", "hang-by-code")
sys.exit(run_demo({name: (incidents()[name].title, incidents()[name].bundle) for name in names}))
"""
_CRASH = """
import sys
from pathlib import Path
from oncall.bundle.store import Bundle
from oncall.console.app import run_console
from oncall.console.screens.incident import IncidentScreen
from oncall.errors import OncallError
def broken(self, snapshot):
    raise RuntimeError("made to fail")
IncidentScreen.show_body = broken
try:
    run_console(Bundle.open(Path(sys.argv[1])), live=False)
except OncallError as error:
    print(error.cause, error.hint)
    sys.exit(error.exit_code)
"""


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path)
    yield server
    server.close()


def test_three_keys_from_the_demo_to_the_copied_command(tmux: Tmux, tmp_path: Path) -> None:
    tmux.start(sys.executable, script(tmp_path, _DEMO))
    tmux.until("hang-by-hardware")
    tmux.keys("Enter")
    tmux.until("Xid 79")
    tmux.until("$ scontrol")
    tmux.keys("y")
    tmux.until("copied to tmux")
    assert tmux.buffer.startswith("scontrol update nodename=node002 state=drain")


def test_each_screen_by_its_key_and_out_again(tmux: Tmux, tmp_path: Path, incident: Callable[[str], Bundle]) -> None:
    tmux.start(sys.executable, script(tmp_path, REPLAY), incident("hang-by-code").path)
    tmux.until("another branch")
    for key, mark in (
        ("2", "fewest first"),
        ("3", "explains 8 waiting ranks"),
        ("4", "UNKNOWN"),
        ("5", "pages"),
        ("6", "what it lacks"),
        ("7", "UTC         from"),
        ("?", "copy the command or text"),
    ):
        tmux.keys(key)
        tmux.until(mark)
        tmux.keys("Escape")
        tmux.until("SUSPECTS")
    tmux.keys("q")
    tmux.until("ended:0")
    assert tmux.as_it_was


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_leaves_the_terminal_as_it_was(
    number: signal.Signals, code: int, tmux: Tmux, tmp_path: Path, incident: Callable[[str], Bundle]
) -> None:
    tmux.start(sys.executable, script(tmp_path, REPLAY), incident("hang-by-code").path)
    tmux.until("another branch")
    os.kill(tmux.child(), number)
    tmux.until(f"ended:{code}")
    assert tmux.as_it_was
    tmux.keys("echo ty''ped", "Enter")
    tmux.until("typed")


def test_control_c_leaves(tmux: Tmux, tmp_path: Path, incident: Callable[[str], Bundle]) -> None:
    tmux.start(sys.executable, script(tmp_path, REPLAY), incident("hang-by-code").path)
    tmux.until("another branch")
    tmux.keys("C-c")
    tmux.until("ended:0")
    assert tmux.as_it_was


def test_a_terminal_that_goes_away_takes_the_console_and_its_walk_along(
    tmux: Tmux, tmp_path: Path, incident: Callable[[str], Bundle]
) -> None:
    tmux.start(sys.executable, script(tmp_path, REPLAY), incident("hang-by-code").path)
    tmux.until("another branch")
    console = tmux.child()
    walks = [int(pid) for each in Path(f"/proc/{console}/task").glob("*/children") for pid in each.read_text().split()]
    assert walks
    ends = [os.pidfd_open(pid) for pid in (console, *walks)]
    tmux.close()
    for end in ends:
        assert select.select([end], [], [], 60.0)[0]
        os.close(end)


def test_a_crash_leaves_the_terminal_and_says_what_to_do(
    tmux: Tmux, tmp_path: Path, incident: Callable[[str], Bundle]
) -> None:
    tmux.start(sys.executable, script(tmp_path, _CRASH), incident("hang-by-code").path)
    tmux.until("ended:1")
    assert tmux.as_it_was
    assert "made to fail" in tmux.screen
    assert "Traceback" not in tmux.screen
    assert "oncall replay" in tmux.screen
