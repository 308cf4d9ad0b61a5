"""The console on recorded incidents, with a clock that stands still."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle
from oncall.console.app import BundleConsole, first_snapshot
from oncall.console.host import Looks
from oncall.rehearse.incidents import incidents

NOW = datetime(2026, 11, 29, 16, 0, tzinfo=UTC)

ConsoleOf = Callable[..., BundleConsole]


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine decides how the console looks, and nothing is written into its user's home."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("COLORFGBG", "NO_COLOR", "TMUX", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def incident(tmp_path: Path) -> Callable[[str], Bundle]:
    """A copy of a recorded incident, free to be written to."""

    def copy(name: str) -> Bundle:
        folder = tmp_path / "bundles" / name
        shutil.copytree(incidents()[name].bundle.path, folder)
        return Bundle.open(folder)

    return copy


@pytest.fixture
def console_of() -> ConsoleOf:
    """The console on a bundle, not yet running."""

    def make(
        bundle: Bundle, *, read_only: bool = False, guide: bool = False, theme: str = "dark", ascii_signs: bool = False
    ) -> BundleConsole:
        first = first_snapshot(bundle, live=False, read_only=read_only, guide=guide)
        return BundleConsole(bundle, first, Looks(theme=theme, ascii_signs=ascii_signs, clock=lambda: NOW))

    return make
