"""Whatever stands on a screen stands in the JSON answer of the same bundle."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

import oncall.console
from oncall.bundle.store import Bundle
from oncall.console.app import BundleConsole
from oncall.console.lines import safe
from oncall.console.orders import ShowRaw
from oncall.console.screens.raw import RawScreen
from oncall.console.screens.triage import TriageScreen
from oncall.console.widgets.listing import Listing
from oncall.console.widgets.statusbar import StatusBar
from oncall.report.durations import dollars, duration
from oncall.report.earlier import compared, earlier_bundle
from oncall.report.json_report import as_json
from oncall.report.triage import replay
from oncall.run.nodes import expand_ranks

from .altered import alert, fire, operate, silence
from .conftest import ConsoleOf
from .waiting import press, settled, until

SCREENS = {
    "1": ("tree", "step"),
    "2": ("calls", "left"),
    "3": ("collectives", None),
    "4": ("answer", None),
    "5": ("table", "full"),
    "6": ("table", "full"),
    "7": ("table", "full"),
    "c": ("table", "full"),
}
"""The key of each screen, its list with a cursor, and the pane that shows what the cursor stands on."""
WHOLE = {"hang-by-hardware": "job", "slowdown-by-throttling": "panels"}
SHOWN = ("actions", "alerts", "compared", "cost", "escalate", "findings", "journal", "not_needed", "seen", "steps")
ONCALL = str(Path(sys.executable).with_name("oncall"))
_WORDS = re.compile(r"[^\W_]+(?:[.,:'_-][^\W_]+)*")
_RANKS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def eventful(bundle: Bundle) -> None:
    """A triage after an earlier one, with a silent node, alerts, and an operator at work."""
    began = bundle.manifest.started
    earlier = bundle.path.with_name("earlier")
    shutil.copytree(bundle.path, earlier)
    before = msgspec.structs.replace(bundle.manifest, started=began - timedelta(minutes=9))
    (earlier / "manifest.json").write_bytes(msgspec.json.encode(before))
    silence(bundle, "node001")
    quiet = [alert(bundle, f"Quiet{minutes}", minutes, silenced_by="5f3a") for minutes in (7, 8)]
    fire(bundle, alert(bundle, "TrainingStepStalled", 3), *quiet)
    operate(bundle, began, "restarting", "unknown")


async def document_of(bundle: Bundle) -> Any:
    """What `--triage --json --compare` answers."""
    return json.loads(as_json(await compared(await replay(bundle, lambda _: None), bundle)))


async def rows_of(console: BundleConsole, pilot: "Pilot[int]") -> list[str]:
    """Every row of every screen, and what the row under the cursor brings with it."""
    seen: dict[str, None] = {}
    for key, (master, detail) in SCREENS.items():
        await press(pilot, "escape", "escape", key)
        screen = console.screen
        assert isinstance(screen, TriageScreen)
        await until(pilot, lambda screen=screen: screen.query_one("#answer", Listing).text)
        seen[screen.query_one(StatusBar).text] = None
        for listing in screen.query(Listing).results(Listing):
            seen |= dict.fromkeys(listing.text.splitlines())
        table = screen.query_one(f"#{master}", Listing)
        for row in [row for row in table.rows if detail and not row.fixed]:
            table.put_cursor(row.key)
            await settled(pilot)
            seen |= dict.fromkeys(screen.query_one(f"#{detail}", Listing).text.splitlines())
    return list(seen)


def leaves(value: Any) -> Iterator[str | int | float]:
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    elif value is not None and not isinstance(value, bool):
        yield value


def spellings(value: str | float) -> Iterator[str]:
    """How a screen may write a value: numbers with fewer digits, sums, durations, times of day, how many ranks."""
    if not isinstance(value, str):
        yield from (f"{value}", f"{value:,}", f"{value:,.4g}", f"{value:.3g}", f"{value:.1f}")
        yield from (duration(value), dollars(value))
        return
    yield value
    if _RANKS.fullmatch(value):
        yield f"{len(expand_ranks(value)):,}"
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return
    yield f"{at:%Y-%m-%d %H:%M:%S} {at:%H:%M} {at:%m-%d} {at:%H:%M:%S}.{at.microsecond // 100_000}"


@cache
def own_words() -> frozenset[str]:
    """The console's own words: what its source holds between quotes, numbers left out."""
    words = set()
    for path in Path(oncall.console.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words |= {word.lower() for word in _WORDS.findall(node.value) if not re.search(r"\d", word)}
    return frozenset(words)


def not_told(rows: list[str], document: Any) -> list[str]:
    """What the rows hold that neither the document says nor the console itself: `word  in  row`."""
    texts = {safe(text) for leaf in leaves(document) for text in spellings(leaf)}
    words = own_words() | {word.lower() for text in texts for word in _WORDS.findall(text)}
    whole = sorted((text for text in texts if len(text) > 12), key=len, reverse=True)
    found = []
    for row in rows:
        left = row
        for text in whole:
            if text in left:
                left = left.replace(text, " ")
        found += [f"{word!r} in {row!r}" for word in _WORDS.findall(left) if word.lower() not in words]
    return found


async def shown(console: BundleConsole) -> list[str]:
    """The rows of all screens once the walk has ended, with the triage before it laid beside it if there is one."""
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "c")
        if earlier_bundle(console.bundle):
            await until(pilot, lambda: console.snapshot.before)
        return await rows_of(console, pilot)


@pytest.mark.parametrize("name", WHOLE)
async def test_every_cell_of_every_screen_is_in_the_json(
    name: str, incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    bundle = incident(name)
    rows, document = await shown(console_of(bundle)), await document_of(bundle)
    assert len(rows) > 80
    assert document["job"]["message"] in "\n".join(rows)
    assert not_told(rows, document) == []
    assert not_told(rows, {**document, "steps": [], "panels": [], "job": None}) != []


async def test_where_much_has_happened_no_part_of_the_json_can_be_left_out(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    bundle = incident("hang-by-code")
    eventful(bundle)
    rows, document = await shown(console_of(bundle)), await document_of(bundle)
    text = "\n".join(rows)
    for word in ("TrainingStepStalled", "silenced by 5f3a", "paged the people", "no such partition", "I saw it move"):
        assert word in text
    assert not_told(rows, document) == []
    for part in SHOWN:
        assert not_told(rows, {key: value for key, value in document.items() if key != part}), part


@pytest.mark.parametrize("what", ["stack", "dump"])
async def test_the_raw_evidence_of_a_rank_is_what_oncall_raw_prints(
    what: str, incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    bundle = incident("hang-by-code")
    console = console_of(bundle)
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
        console.order(ShowRaw(what, 5))
        await until(pilot, lambda: isinstance(console.screen, RawScreen))
        lines = console.screen.query_one("#lines", Listing).text.splitlines()
    printed = subprocess.run([ONCALL, "raw", bundle.path, "5", what], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == lines
    nodes = {node["host"]: node["files"] for node in (await document_of(bundle))["seen"]["nodes"]}
    raw = (bundle.path / nodes["node002"]["stacks" if what == "stack" else "flight_recorder"]).read_bytes()
    assert b"rank_5" in raw if what == "dump" else b"_check_batch" in raw
