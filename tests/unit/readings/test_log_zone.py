"""Logs written in another time zone than the node's: their last write tells by how much."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from oncall.readings.incident import run_incidents
from oncall.readings.progress import progress

from .evidence import NOW, Part, Scene, log

STEP = (
    " [{at:%Y-%m-%d %H:%M:%S}] iteration     1370/  100000 | consumed samples: 701440 |"
    " elapsed time per iteration (ms): 5000.0 | learning rate: 2.987E-04 | lm loss: 2.104E+00 |\n"
)
TIMEOUT = (
    "[rank5]:[E{at:%m%d %H:%M:%S}.000000000 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank 5] Watchdog"
    " caught collective operation timeout: WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,"
    " Timeout(ms)=30000) ran for 30080 milliseconds before timing out.\n"
)
ENDED = NOW - timedelta(seconds=200)


def told(folder: Path, behind: timedelta, *more: Part, after: str = "") -> Scene:
    """A step that ended 200 s ago, as a log shows it whose zone lies so far behind the node's, which is UTC."""
    text = STEP.format(at=ENDED - behind) + after
    scene = Scene(folder)
    scene.say("kernel", {"node001": [("kernel", {"form": "dmesg"}, "")], "node002": []})
    return scene.say("logs", {"node001": [log("/l/r/attempt_0/0/stdout.log", text, age_s=200), *more], "node002": []})


@pytest.mark.parametrize(
    ("behind", "words"),
    [
        (timedelta(hours=8), "8 h behind the node's"),
        (timedelta(hours=-5.5), "5.5 h ahead of the node's"),
        (timedelta(hours=14, seconds=12), "14 h behind the node's"),
    ],
)
def test_whole_half_hours_are_a_zone(behind: timedelta, words: str, tmp_path: Path) -> None:
    judged = progress(told(tmp_path, behind).case)
    assert words in judged.reason
    (finding,) = judged.findings
    assert finding.time is not None
    assert abs(finding.time - ENDED) <= timedelta(seconds=30)


@pytest.mark.parametrize("behind", [timedelta(0), timedelta(minutes=10), timedelta(hours=40)])
def test_anything_else_is_none(behind: timedelta, tmp_path: Path) -> None:
    judged = progress(told(tmp_path, behind).case)
    assert "time zone" not in judged.reason
    assert judged.findings[0].time == ENDED - behind


def test_a_log_that_ends_with_something_else_does_not_tell(tmp_path: Path) -> None:
    """What was written last may have been written long after the step."""
    judged = progress(told(tmp_path, timedelta(hours=8), after="a warning\n").case)
    assert "time zone" not in judged.reason


def test_the_other_logs_of_the_host_are_read_in_the_same_zone(tmp_path: Path) -> None:
    behind = timedelta(hours=8)
    late = log("/l/r/attempt_0/1/stderr.log", TIMEOUT.format(at=NOW - timedelta(seconds=100) - behind), age_s=100)
    (incident,) = run_incidents(told(tmp_path, behind, late).case).order.incidents
    assert incident.first.at == datetime(2026, 3, 3, 2, 58, 20, tzinfo=UTC)
