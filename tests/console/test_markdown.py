"""The summary for a chat: complete, short, and nothing in it is markup that a node wrote."""

import re
from collections.abc import Callable

import msgspec
import pytest

from oncall.bundle.store import Bundle
from oncall.report.changes import changes
from oncall.report.markdown import as_markdown
from oncall.report.model import ReadyAction, Report
from oncall.report.triage import replay


@pytest.fixture
async def report(incident: Callable[[str], Bundle]) -> Report:
    return await replay(incident("hang-by-hardware"), lambda _: None)


def test_it_holds_who_what_and_what_to_do(report: Report) -> None:
    text = as_markdown(report)
    first = text.splitlines()[0]
    assert first.startswith("**run42: ")
    assert "Xid 79" in first
    assert "rank 5 on node002" in text
    assert report.actions[0].command is not None
    assert f"`{report.actions[0].command}`" in text
    assert report.escalate.replace("@", "\\@") in text
    assert len(text.splitlines()) < 30


def test_words_of_a_node_are_no_markup(report: Report) -> None:
    cause = "# [click](http://x) <script> @channel `code` **bold** \x1b[2J"
    verdict = msgspec.structs.replace(report.verdict, cause=cause)
    hostile = msgspec.structs.replace(report, verdict=verdict, headline=cause, actions=(), suspects=())
    text = as_markdown(hostile)
    assert "\x1b" not in text
    assert not re.search(r"(?<!\\)[\[<@]", text.splitlines()[0])
    assert not re.search(r"(?<!\\)`", text.splitlines()[0])


@pytest.mark.parametrize("command", ["echo `date`", "`", "a ``b`` c"])
def test_a_command_with_backticks_stays_one_code_span(report: Report, command: str) -> None:
    action = ReadyAction(say="Do it.", command=command, target="node002")
    (line,) = (
        line
        for line in as_markdown(msgspec.structs.replace(report, actions=(action,))).splitlines()
        if line.startswith("   `")
    )
    fence = re.match(r"`+", line.strip())
    assert fence is not None
    inner = line.strip()[len(fence[0]) : -len(fence[0])]
    assert inner.strip(" ") == command
    assert fence[0] not in re.findall(r"`+", inner)


def test_nothing_changed_between_a_triage_and_itself(report: Report) -> None:
    assert changes(report, report) == ()


def test_a_change_tells_what_was_and_what_is(report: Report) -> None:
    moved = msgspec.structs.replace(report, state="running", suspects=(), headline="Nothing is wrong.")
    told = {change.what: (change.before, change.now) for change in changes(report, moved)}
    assert told["state"] == ("stopped", "running")
    assert told["answer"] == (report.headline, "Nothing is wrong.")
    assert told["rank 5"] == ("suspect, on node002", None)
