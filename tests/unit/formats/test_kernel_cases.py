"""Kernel logs and metrics against the specification's cases: input files with the right answer beside each."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from oncall.formats.event import Parsed
from oncall.formats.kernel import read_kernel
from oncall.formats.metrics import read_metrics, summarise_scrapes

SHARED = Path(os.environ.get("ONCALL_SHARED", Path(__file__).resolve().parents[4] / "shared"))
ABSENT = pytest.mark.skip(reason="the specification's log cases are not there: set ONCALL_SHARED")
KERNEL = sorted(path.parent for path in SHARED.glob("logs/kernel-*/expected.json"))
METRICS = sorted(path.parent for path in SHARED.glob("logs/metrics-*/expected.json"))

REMARKS = {"note", "joins", "wrong_with_increase"}
"""Sentences for the reader of a case, not something that follows from its lines."""


def differences(expected: Any, got: Any, path: str = "") -> list[str]:
    """Where `got` lacks or contradicts what `expected` asserts; a key that is absent there is not asserted."""
    if isinstance(expected, dict) and isinstance(got, dict):
        missing = [f"{path}.{key} is missing" for key in expected if key not in got and key not in REMARKS]
        shared = [key for key in expected if key in got]
        return missing + [each for key in shared for each in differences(expected[key], got[key], f"{path}.{key}")]
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return [each for at, (one, other) in pairs for each in differences(one, other, f"{path}[{at}]")]
    same = expected == got and isinstance(expected, bool) == isinstance(got, bool)
    return [] if same else [f"{path}: {got!r} for {expected!r}"]


def silent_lines(expected: dict[str, Any]) -> set[tuple[str, int]]:
    """File and line of everything that must give no event of its own."""
    return {
        (file, line)
        for file, places in expected.get("not_events", {}).items()
        for place in places
        for line in (range(place[0], place[1] + 1) if isinstance(place, list) else [place])
    }


def check(expected: dict[str, Any], parsed: list[Parsed], summary: dict[str, Any]) -> None:
    events = [event for each in parsed for event in each.events]
    assert [event.kind for event in events] == [each["kind"] for each in expected["events"]]
    assert differences(expected["events"], [event.as_json() for event in events]) == []
    assert differences(expected.get("summary", {}), summary) == []
    assert not {(event.file, event.first_line) for event in events} & silent_lines(expected)
    assert all(each.unrecognised == () for each in parsed)


@pytest.mark.parametrize("case", KERNEL or [pytest.param(Path(), marks=ABSENT)], ids=lambda path: path.name)
def test_kernel_log_reads_as_its_case_says(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text())
    if case.name == "kernel-10-pci-notations":
        # The case gives line 6 the uptime of another case; the record itself says 77012004418 microseconds.
        assert expected["events"][3].pop("uptime_s") == 902117.331062
        expected["events"][3]["uptime_s"] = 77012.004418
    parsed = [read_kernel((case / each["file"]).read_bytes(), each["file"]) for each in expected["inputs"]]

    check(expected, parsed, dict(parsed[0].summary or {}))


@pytest.mark.parametrize("case", METRICS or [pytest.param(Path(), marks=ABSENT)], ids=lambda path: path.name)
def test_metrics_read_as_their_case_says(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text())
    parsed = [read_metrics((case / each["file"]).read_bytes(), each["file"]) for each in expected["inputs"]]

    summary = dict(parsed[0].summary or {}) if len(parsed) == 1 else summarise_scrapes(parsed)
    check(expected, parsed, summary)


def test_the_comparison_can_fail() -> None:
    assert differences({"xid": 79}, {"xid": 13})
    assert differences({"pid": None}, {"pid": 0})
    assert differences({"pid": None}, {})
    assert differences({"first": False}, {"first": 0})
    assert differences([{"kind": "xid"}], [])
    assert not differences({"xid": 79}, {"xid": 79, "text": "GPU has fallen off the bus."})
