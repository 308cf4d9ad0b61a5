"""A bundle that was damaged or forged still replays to a report, and nothing of it reaches a terminal as a command."""

import asyncio
import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle
from oncall.cli import main
from oncall.rehearse.incidents import incidents
from oncall.report.json_report import as_json
from oncall.report.text import as_text
from oncall.report.triage import replay

SEEDS = range(24)
HOSTILE = (
    b"\x1b[31m\x1b]52;c;aGk=\x07",
    b"[bold red]",
    b"\xff\xfe",
    "\u202egnp.exe".encode(),
    b"\n" * 50,
    b"A" * 100_000,
)
NUMBERS = (b"-1", b"99999999999999999999999", b"NaN", b"", b"0", "\u00b2".encode())


def damage(data: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, cut, doubled or put in."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 30)):
        if not out:
            break
        here = chance.randrange(len(out))
        match chance.randrange(5):
            case 0:
                out[here] = chance.randrange(256)
            case 1:
                del out[here : here + chance.randint(1, 2000)]
            case 2:
                out[here:here] = chance.choice(HOSTILE)
            case 3:
                there = chance.randrange(len(out))
                out[here:here] = out[there : there + 500]
            case _:
                if found := [match.span() for match in re.finditer(rb"\d+", bytes(out))]:
                    first, last = chance.choice(found)
                    out[first:last] = chance.choice(NUMBERS)
    return bytes(out)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_damaged_bundle_still_gives_a_report(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    recorded = incidents()
    source = recorded[chance.choice(sorted(recorded))].bundle.path
    copy = tmp_path / "bundle"
    shutil.copytree(source, copy)
    answers = sorted(copy.rglob("*.out"))
    for path in chance.sample(answers, chance.randint(1, 4)):
        path.write_bytes(damage(path.read_bytes(), chance))
    report = asyncio.run(replay(Bundle.open(copy), lambda _: None))
    text = as_text(report)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert json.loads(as_json(report))["schema"] == "oncall.triage/1"
    assert not [step.reason for step in report.steps if "failed on this evidence" in step.reason]


@pytest.mark.parametrize("name", ["manifest.json", "run.toml", "ranks.json", "events.jsonl"])
def test_a_pipe_or_an_endless_file_in_place_of_a_file_ends_in_words(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = tmp_path / "sent"
    shutil.copytree(incidents()["hang-by-code"].bundle.path, sent)
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), _huge):
        (sent / name).unlink(missing_ok=True)
        make(sent / name)
        assert main(["replay", str(sent), "--triage"]) == 2
        assert name in capsys.readouterr().err


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)
