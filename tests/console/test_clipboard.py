"""Copying: through the terminal, through tmux, into a file, and honest about which."""

import base64
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from oncall.console.clipboard import copy

XTERM = {"TERM": "xterm-256color"}


def kept(tmp_path: Path) -> str:
    return (tmp_path / "state" / "oncall" / "copied.txt").read_text()


def test_osc_52_carries_the_text_and_nothing_is_promised(tmp_path: Path) -> None:
    sent: list[str] = []
    said = copy("drain node037 'because'", sent.append, XTERM)
    (sequence,) = sent
    assert sequence.startswith("\x1b]52;c;")
    assert base64.b64decode(sequence.removeprefix("\x1b]52;c;").removesuffix("\a")) == b"drain node037 'because'"
    assert "does not say" in said
    assert kept(tmp_path) == "drain node037 'because'"


@pytest.mark.parametrize(
    "environment", [{"TERM": "linux"}, {"TERM": "dumb"}, {}, {**XTERM, "TERM_PROGRAM": "Apple_Terminal"}]
)
def test_where_there_is_no_clipboard_the_file_is_named(environment: dict[str, str], tmp_path: Path) -> None:
    sent: list[str] = []
    said = copy("text", sent.append, environment)
    assert sent == []
    assert said.startswith("not copied")
    assert "copied.txt" in said
    assert kept(tmp_path) == "text"


def test_what_is_too_long_for_a_terminal_goes_into_the_file(tmp_path: Path) -> None:
    sent: list[str] = []
    said = copy("x" * 80_000, sent.append, XTERM)
    assert sent == []
    assert "too long" in said
    assert len(kept(tmp_path)) == 80_000


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_tmux_is_asked_whether_it_took_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = tmp_path / "tmux"
    subprocess.run(["tmux", "-S", socket, "-f", "/dev/null", "new-session", "-d", "sleep 60"], check=True)
    try:
        asked = subprocess.run(
            ["tmux", "-S", socket, "display-message", "-p", "#{socket_path},#{pid},0"], check=True, capture_output=True
        )
        monkeypatch.setenv("TMUX", asked.stdout.decode().strip())
        said = copy("drain node037", lambda _: None, os.environ)
        held = subprocess.run(["tmux", "-S", socket, "show-buffer"], check=True, capture_output=True).stdout
    finally:
        subprocess.run(["tmux", "-S", socket, "kill-server"], check=False)
    assert held == b"drain node037"
    assert said.startswith("copied to tmux")
