"""One rank's evidence as lines: of a rank that was not read, why; of a long one, what was left out."""

import asyncio
import shlex
from pathlib import Path

import pytest

from oncall.cli import main
from oncall.console import raw
from oncall.console.orders import ShowRaw
from oncall.console.raw import raw_text
from oncall.rehearse.incidents import incidents
from oncall.report.triage import recorded_case

from ..readings.evidence import Scene

RANK_0 = {"pid": "7", "rank": "0"}


def test_why_there_is_no_stack_is_said_and_not_an_empty_one(tmp_path: Path) -> None:
    refused = "Error: Permission Denied: Try running again with elevated permissions"
    scene = Scene(tmp_path, nodes="node001")
    scene.say("stacks", {"node001": [("stack", RANK_0, ""), ("stack-error", RANK_0, f"{refused}\n")]})
    told = raw_text(scene.case, ShowRaw("stack", 0), scene.bundle.path)
    assert told.by_hand is None
    assert refused in told.lines[0]


def test_a_node_that_was_silent_is_the_reason(tmp_path: Path) -> None:
    scene = Scene(tmp_path, nodes="node001").say("stacks", {"node001": "no SSH greeting within 6 s"})
    (line,) = raw_text(scene.case, ShowRaw("stack", 0), scene.bundle.path).lines
    assert "no SSH greeting within 6 s" in line


def test_what_is_left_out_of_a_long_one_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "_MOST_LINES", 2)
    scene = Scene(tmp_path, nodes="node001").say("stacks", {"node001": [("stack", RANK_0, "a\nb\nc\nd")]})
    told = raw_text(scene.case, ShowRaw("stack", 0), scene.bundle.path)
    assert told.lines == ("a", "b", "2 more lines are in the bundle")


def test_entries_have_heads_their_call_site_and_a_command_that_shows_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Rank 5 was sent into one more all_reduce, in _check_batch, when this was recorded (tests/lab/record.py)."""
    bundle = incidents()["hang-by-code"].bundle
    told = raw_text(asyncio.run(recorded_case(bundle)), ShowRaw("dump", 5), bundle.path)
    heads, newest = told.lines[0], told.lines[1]
    assert newest[heads.index("call site") :].startswith("_check_batch (")
    assert newest[heads.index("operation") :].startswith("all_reduce ")
    program, *arguments = shlex.split(str(told.by_hand))
    assert program == "oncall"
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == list(told.lines)
