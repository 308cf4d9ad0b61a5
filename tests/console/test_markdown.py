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


def test_an_age_that_grew_is_no_change_and_another_rank_is_one(report: Report) -> None:
    older = msgspec.structs.replace(report, headline="No step for 10 s; rank 5 waits.")
    for headline, changed in (("No step for 25.5 min; rank 5 waits.", 0), ("No step for 10 s; rank 6 waits.", 1)):
        assert len(changes(older, msgspec.structs.replace(report, headline=headline))) == changed


def test_a_step_that_answers_alike_in_other_words_has_not_changed(report: Report) -> None:
    first, *others = report.steps
    reworded = msgspec.structs.replace(report, steps=(msgspec.structs.replace(first, reason="other words"), *others))
    assert changes(report, reworded) == ()
    answered = msgspec.structs.replace(report, steps=(msgspec.structs.replace(first, verdict="unknown"), *others))
    assert [change.what for change in changes(report, answered)] == [f"step {first.step}"]
