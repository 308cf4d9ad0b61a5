"""The report of a recorded incident: complete, consistent, the same facts as text and as JSON."""

import asyncio
import json
import re

import msgspec
import pytest

from oncall.cli import main
from oncall.flight_recorder.model import Grade
from oncall.playbook.model import Ending
from oncall.rehearse.incidents import incidents
from oncall.report.json_report import as_json
from oncall.report.model import Report
from oncall.report.text import as_text
from oncall.report.triage import replay

CAUSES = {
    "hang-by-code": ("extra_collective", [5], ["node002"]),
    "hang-by-data": ("stuck_before_collective", [5], ["node002"]),
    "hang-by-hardware": ("gpu_fault", [5], ["node002"]),
    "hang-of-the-network": ("transport_stall", [], []),
}
"""What was injected when each was recorded (tests/lab/record.py)."""


def report_of(name: str) -> Report:
    return asyncio.run(replay(incidents()[name].bundle, lambda _: None))


@pytest.mark.parametrize("name", CAUSES)
def test_the_recorded_cause_is_named(name: str) -> None:
    verdict = report_of(name).verdict
    assert (verdict.kind, list(verdict.ranks), list(verdict.hosts)) == CAUSES[name]


@pytest.mark.parametrize("name", CAUSES)
def test_json_has_the_published_form(name: str) -> None:
    report = report_of(name)
    assert msgspec.json.decode(as_json(report), type=Report, strict=True) == report


@pytest.mark.parametrize("name", CAUSES)
def test_everything_cited_is_there(name: str) -> None:
    report = report_of(name)
    known = {each.id for each in report.findings}
    cited = {*report.verdict.rests_on, *report.verdict.against, *(f for step in report.steps for f in step.findings)}
    assert cited <= known
    assert report.verdict.rests_on
    assert all(each.finding.cites for each in report.findings)


def test_what_more_than_one_answer_fits_carries_no_other_grade() -> None:
    verdict = report_of("hang-of-the-network").verdict
    assert (verdict.ending, verdict.grade) == (Ending.UNDECIDED, Grade.UNDECIDED)


@pytest.mark.parametrize("name", CAUSES)
def test_the_text_says_nothing_that_json_lacks(name: str) -> None:
    """Every number and name of the text stands in the JSON too, times and sums apart, which the text words anew."""
    report = report_of(name)
    data = json.dumps(json.loads(as_json(report)))
    for word in set(re.findall(r"\b(?:node\d+|rank \d+|_?[a-z]+_[a-z_]+|Xid \d+|F\d+)\b", as_text(report))):
        assert word in data or word.removeprefix("rank ") in data, word


@pytest.mark.parametrize("name", CAUSES)
def test_no_line_is_wider_than_a_terminal_but_commands(name: str) -> None:
    lines = as_text(report_of(name)).splitlines()
    assert [line for line in lines[1:] if len(line) > 100 and "$ " not in line and not line.startswith("BUNDLE")] == []


def test_the_demo_command_prints_an_incident_and_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "hang-by-hardware", "--triage"]) == 0
    out = capsys.readouterr().out
    assert "Xid 79" in out
    assert "scontrol update nodename=node002" in out
    assert main(["demo", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in CAUSES)
    assert main(["demo", "nowhere"]) == 2


def test_a_suspect_has_a_line_of_each_source_and_of_its_clock_where_metrics_were_asked() -> None:
    """The clock of the slow GPU was held at 1,305 MHz when this was recorded (tests/lab/slowdowns.py)."""
    (lost,) = report_of("hang-by-hardware").suspects
    assert list(lost.says) == ["flight_recorder", "process", "stack", "kernel"]
    (slow,) = report_of("slowdown-by-throttling").suspects
    assert list(slow.says) == ["flight_recorder", "process", "stack", "kernel", "clock"]
    clock = re.match(r"SM clock ([\d,]+) MHz", slow.says["clock"])
    assert clock is not None
    assert int(clock[1].replace(",", "")) == pytest.approx(1305, abs=5)
