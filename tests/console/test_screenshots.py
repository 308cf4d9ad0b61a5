"""Every screen as a picture and as text, from recorded incidents, the same each time.

`SCREENSHOTS=write` writes them into `screenshots/` and beside this file: look at them before they are kept.
"""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from textual.screen import Screen

from oncall.bundle.evidence import NodeAnswer, Outcome
from oncall.bundle.store import Bundle
from oncall.console.app import first_snapshot
from oncall.console.console import Console, Looks
from oncall.console.progress import take_in_all
from oncall.console.screens.incident import IncidentScreen
from oncall.console.screens.triage import TriageScreen
from oncall.console.snapshot import Snapshot
from oncall.playbook.events import NodeAnswered, ProbeStarted
from oncall.playbook.loader import load
from oncall.report.triage import replay

from .conftest import NOW

PICTURES = Path(__file__).parents[2] / "screenshots"
TEXTS = Path(__file__).parent / "screens"

SCREENS = {
    "incident": "1",
    "stacks": "2",
    "flight": "3",
    "metrics": "4",
    "hardware": "5",
    "nodes": "6",
    "timeline": "7",
    "help": "question_mark",
}
STATES = ("empty", "loading", "partial", "full")
SIZES = {80: 24, 120: 34}
INCIDENT = "hang-by-code"
BUNDLE = "/incidents/run42"


class StillConsole(Console):
    """The console on one snapshot, with no triage behind it."""

    def __init__(self, snapshot: Snapshot, looks: Looks) -> None:
        super().__init__(looks)
        self.snapshot = snapshot

    def get_default_screen(self) -> Screen[None]:
        return IncidentScreen()


@pytest.fixture
async def states(incident: Callable[[str], Bundle]) -> dict[str, Snapshot]:
    """The same triage before anything, under way, with a node that does not answer, and whole."""
    bundle = incident(INCIDENT)
    first = first_snapshot(bundle, live=True, read_only=False)
    empty = replace(first, start=replace(first.start, bundle=BUNDLE, started=NOW))
    probes = ("processes", "logs", "stacks", "kernel")
    loading = take_in_all(
        replace(empty, playbook=load("hang"), here="progress"),
        [
            *(ProbeStarted(at=NOW, probe=probe, asked=("node001", "node002")) for probe in probes),
            NodeAnswered(at=NOW, probe="processes", host="node001", outcome=Outcome.OK, reason=None, took_s=0.4),
            NodeAnswered(at=NOW, probe="stacks", host="node002", outcome=Outcome.DENIED, reason="denied", took_s=0.2),
        ],
    )
    full = await _walked(bundle)
    _silence(bundle, "node001")
    return {"empty": empty, "loading": loading, "partial": await _walked(bundle), "full": full}


async def _walked(bundle: Bundle) -> Snapshot:
    report = await replay(bundle, lambda _: None)
    first = first_snapshot(bundle, live=False, read_only=False)
    still = msgspec.structs.replace(report, bundle=BUNDLE, took_s=1.0)
    start = replace(first.start, bundle=BUNDLE)
    return Snapshot(start, playbook=load("hang"), playbooks=("hang",), report=still)


def _silence(bundle: Bundle, host: str) -> None:
    """As if this node had been reached by nobody."""
    for index in (bundle.path / "evidence").glob("*/*/index.jsonl"):
        answers = [msgspec.json.decode(line, type=NodeAnswer) for line in index.read_bytes().splitlines()]
        silent = [
            answer
            if answer.host != host
            else msgspec.structs.replace(
                answer, outcome=Outcome.UNREACHABLE, reason="no connection within 6 s", file=None, stderr=""
            )
            for answer in answers
        ]
        index.write_bytes(b"".join(msgspec.json.encode(answer) + b"\n" for answer in silent))


async def picture(snapshot: Snapshot, key: str, width: int, looks: Looks) -> tuple[str, str]:
    """(SVG, text) of one screen."""
    console = StillConsole(snapshot, looks)
    async with console.run_test(size=(width, SIZES[width])) as pilot:
        await pilot.press(key)
        await pilot.pause()
        svg = console.export_screenshot(title="oncall")
        strips = console.screen._compositor.render_strips()
        screen = console.screen
        assert not isinstance(screen, TriageScreen) or screen.query_one("#answer")
    return svg, "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def agree(path: Path, made: str) -> None:
    """What was made is what is kept; writes it first where that was asked for."""
    if os.environ.get("SCREENSHOTS") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(made, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    assert kept == made, f"{path.name} has changed; SCREENSHOTS=write writes it anew, then look at it"


@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
async def test_screen_as_text_in_each_state(screen: str, width: int, states: dict[str, Snapshot]) -> None:
    texts = []
    for state in STATES:
        _, text = await picture(states[state], SCREENS[screen], width, Looks(theme="dark", clock=lambda: NOW))
        assert all(len(line) <= width for line in text.splitlines())
        texts.append(f"{'=' * 8} {state}\n{text}")
    agree(TEXTS / f"{screen}-{width}.txt", "\n".join(texts))


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", SIZES)
@pytest.mark.parametrize("screen", SCREENS)
async def test_screen_as_picture(screen: str, width: int, theme: str, states: dict[str, Snapshot]) -> None:
    looks = Looks(theme=theme, clock=lambda: NOW)
    svg, _ = await picture(states["full"], SCREENS[screen], width, looks)
    again, _ = await picture(states["full"], SCREENS[screen], width, looks)
    assert svg == again
    agree(PICTURES / f"{screen}-{width}-{theme}.svg", svg)


@pytest.mark.parametrize("state", ["empty", "loading", "partial"])
async def test_incident_under_way_as_picture(state: str, states: dict[str, Snapshot]) -> None:
    svg, _ = await picture(states[state], "1", 120, Looks(theme="dark", clock=lambda: NOW))
    agree(PICTURES / f"incident-{state}-120-dark.svg", svg)


@pytest.mark.parametrize("screen", SCREENS)
async def test_ascii_signs_are_all_ascii(screen: str, states: dict[str, Snapshot]) -> None:
    looks = Looks(theme="dark", ascii_signs=True, clock=lambda: NOW)
    for state in STATES:
        _, text = await picture(states[state], SCREENS[screen], 120, looks)
        assert text.isascii(), [line for line in text.splitlines() if not line.isascii()]


async def test_without_colour_every_word_still_stands_out(
    states: dict[str, Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_COLOR leaves greys alone, and none of them is the colour of its own background."""
    monkeypatch.setenv("NO_COLOR", "1")
    console = StillConsole(states["full"], Looks(theme="dark", clock=lambda: NOW))
    async with console.run_test(size=(120, 34)):
        filters = console._filters
        for strip in console.screen._compositor.render_strips():
            seen = strip
            for each in filters:
                seen = seen.apply_filter(each, console.screen.background_colors[1])
            for segment in seen:
                style = segment.style
                if style and re.search(r"\w", segment.text) and style.color and style.bgcolor:
                    fore, back = style.color.get_truecolor(), style.bgcolor.get_truecolor()
                    assert max(abs(a - b) for a, b in zip(fore, back, strict=True)) > 60, segment.text
