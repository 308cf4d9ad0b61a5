"""Text that nodes send to take over a screen changes nothing but its own cell, in the grid and in a real terminal."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.strip import Strip

from oncall.bundle.store import Bundle
from oncall.console.host import Looks
from oncall.console.snapshot import Snapshot
from oncall.playbook.events import Noted
from oncall.report.journal import JournalLine
from oncall.report.triage import replay

from .conftest import NOW
from .states import StillConsole
from .test_views import snapshot_of
from .tmux import REPLAY, Tmux, script
from .waiting import press, until

HOSTILE = {
    "clears": "\x1b[2J\x1b[H\x1b[31m",
    "titles": "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07",
    "leaves": "\x1b[?1049l\x1bc\x9b2J",
    "markup": "[bold red]node666[/] [@click=app.quit]q[/] {node} %s",
    "megabyte": "x" * 1_000_000,
    "wide": "日本語" * 400,
    "right-to-left": "\u202e\u05d0\u05d1\u05d2\u2067abc",
    "combining": "e" + "\u0301" * 500 + "\ufe0f\u200d",
    "breaks": "a\r\nnode666 is at fault\tb\x0b\x0c\u2028c\x00",
}


async def timeline_of(snapshot: Snapshot, noted: str) -> list[Strip]:
    """The timeline as drawn with a note among other lines, the cursor elsewhere."""
    lines = [JournalLine(at=NOW, who="probe", text=text) for text in ("before it", noted, "after it")]
    looks = Looks(theme="dark", clock=lambda: NOW)
    console = StillConsole(replace(snapshot, journal=tuple(lines)), looks)
    async with console.run_test(size=(100, 34)) as pilot:
        await press(pilot, "7")
        await until(pilot, lambda: "before it" in console.export_screenshot().replace("&#160;", " "))
        return console.screen._compositor.render_strips()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_line_leaves_every_other_cell_as_it_was(text: str, incident: Callable[[str], Bundle]) -> None:
    snapshot = snapshot_of(await replay(incident("hang-by-code"), lambda _: None))
    plain, hostile = await timeline_of(snapshot, "in between"), await timeline_of(snapshot, text)
    at = next(number for number, strip in enumerate(plain) if "in between" in strip.text)
    assert len(plain) == len(hostile)
    for number, (one, other) in enumerate(zip(plain, hostile, strict=True)):
        assert other.cell_length == 100
        assert other.text.isprintable()
        assert number == at or one.text == other.text
    start = plain[at].text.index("in between")
    assert hostile[at].text[:start] == plain[at].text[:start]


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_in_a_real_terminal_too(tmp_path: Path, incident: Callable[[str], Bundle]) -> None:
    bundle = incident("hang-by-code")
    for name, text in HOSTILE.items():
        bundle.append_event(Noted(at=NOW, text=f"{name}: {text}"))
    bundle.append_event(Noted(at=NOW, text="the last note"))
    tmux = Tmux(tmp_path)
    try:
        tmux.start(sys.executable, script(tmp_path, REPLAY), bundle.path)
        tmux.until("another branch")
        title = tmux.title
        tmux.keys("7")
        lines = tmux.until("the last note", "y copy  / filter  n note").splitlines()  # the screen fills from above
        assert tmux.alternate
        assert tmux.title == title
        assert tmux.buffers == ""
    finally:
        tmux.close()
    notes = [line.split()[2] for line in lines if " operator " in line]
    told = [*(f"{name}:" for name in HOSTILE), "the"]
    assert "\n".join(told) in "\n".join(notes)
    assert lines[0].startswith(" run42  ■ STOPPED")
    assert [line for line in lines if line][-1].startswith(" y copy  / filter  n note")
