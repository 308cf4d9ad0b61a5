"""One rank's evidence as lines: of a rank that was not read, why; of a long one, what was left out."""

from pathlib import Path

import pytest

from oncall.console import raw
from oncall.console.orders import ShowRaw
from oncall.console.raw import raw_text

from ..readings.evidence import Scene

RANK_0 = {"pid": "7", "rank": "0"}


def test_why_there_is_no_stack_is_said_and_not_an_empty_one(tmp_path: Path) -> None:
    refused = "Error: Permission Denied: Try running again with elevated permissions"
    scene = Scene(tmp_path, nodes="node001")
    scene.say("stacks", {"node001": [("stack", RANK_0, ""), ("stack-error", RANK_0, f"{refused}\n")]})
    told = raw_text(scene.case, ShowRaw("stack", 0))
    assert told.by_hand is None
    assert refused in told.lines[0]


def test_a_node_that_was_silent_is_the_reason(tmp_path: Path) -> None:
    scene = Scene(tmp_path, nodes="node001").say("stacks", {"node001": "no SSH greeting within 6 s"})
    (line,) = raw_text(scene.case, ShowRaw("stack", 0)).lines
    assert "no SSH greeting within 6 s" in line


def test_what_is_left_out_of_a_long_one_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "_MOST_LINES", 2)
    scene = Scene(tmp_path, nodes="node001").say("stacks", {"node001": [("stack", RANK_0, "a\nb\nc\nd")]})
    assert raw_text(scene.case, ShowRaw("stack", 0)).lines == ("a", "b", "2 more lines are in the bundle")
