"""`oncall read --json` against the specification's log cases: input files with the right answer beside each."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from oncall.cli import main
from oncall.formats.kinds import KINDS, STANDINGS

SHARED = Path(os.environ.get("ONCALL_SHARED", Path(__file__).resolve().parents[4] / "shared"))
CASES = sorted(
    path.parent for path in SHARED.glob("logs/*/expected.json") if path.parent.name[:4] in {"nccl", "step", "pysp"}
)
ABSENT = pytest.mark.skip(reason="the specification's log cases are not there: set ONCALL_SHARED")

REMARK = "note"
"""A remark of the case's author to the reader, not something that follows from the lines."""


def disagreements(expected: Any, got: Any, path: str = "") -> list[str]:
    """Where `got` lacks or contradicts what `expected` asserts; keys that are absent there are not asserted."""
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return [f"{path}: {got!r} for {expected!r}"]
        missing = [f"{path}.{key} is missing" for key in expected if key not in got and key != REMARK]
        shared = [key for key in expected if key in got and key != REMARK]
        return missing + [each for key in shared for each in disagreements(expected[key], got[key], f"{path}.{key}")]
    if isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            return [f"{path}: {got!r} for {expected!r}"]
        pairs = enumerate(zip(expected, got, strict=True))
        return [each for at, (one, other) in pairs for each in disagreements(one, other, f"{path}[{at}]")]
    if isinstance(expected, bool) or expected is None or isinstance(got, bool) or isinstance(expected, str):
        same = expected is got or (isinstance(expected, str) and expected == got)
    else:
        same = isinstance(got, int | float) and math.isclose(expected, got, rel_tol=1e-12)
    return [] if same else [f"{path}: {got!r} for {expected!r}"]


def read(case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[Any, Any]:
    expected = json.loads((case / "expected.json").read_text())
    monkeypatch.chdir(case)
    assert main(["read", "--json", *(each["file"] for each in expected["inputs"])]) == 0
    return expected, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("case", CASES or [pytest.param(Path(), marks=ABSENT)], ids=lambda path: path.name)
def test_agrees_with_case(case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    expected, answer = read(case, monkeypatch, capsys)
    assert [each["kind"] for each in answer["events"]] == [each["kind"] for each in expected["events"]]
    assert disagreements(expected["events"], answer["events"]) == []
    assert disagreements(expected.get("summary", {}), answer["summary"]) == []
    ranks = [
        {"file": each["file"]} | ({"rank": each["rank"]} if "/" in each["file"] else {}) for each in expected["inputs"]
    ]
    assert disagreements(ranks, answer["files"]) == []
    silent = {
        (file, number)
        for file, places in (expected.get("not_events") or {}).items()
        for place in places
        for number in (range(place[0], place[1] + 1) if isinstance(place, list) else [place])
    }
    starts = {
        (each["file"], each["line"][0] if isinstance(each["line"], list) else each["line"]) for each in answer["events"]
    }
    assert not silent & starts


@pytest.mark.parametrize("case", CASES or [pytest.param(Path(), marks=ABSENT)], ids=lambda path: path.name)
def test_vocabulary_is_documented(
    case: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, answer = read(case, monkeypatch, capsys)
    for event in answer["events"]:
        assert set(event) <= {"kind", "file", "line", *KINDS[event["kind"]].fields}, event["kind"]
    assert answer["summary"].get("where") in {None, *STANDINGS}


def test_comparison_can_fail() -> None:
    assert disagreements({"seq": 1}, {"seq": 2})
    assert disagreements({"seq": None}, {"seq": -1})
    assert disagreements({"seq": None}, {})
    assert disagreements({"fatal": False}, {"fatal": 0})
    assert disagreements([{"kind": "step"}], [])
    assert not disagreements({"loss": 1.5}, {"loss": 1.5, "more": 2})
