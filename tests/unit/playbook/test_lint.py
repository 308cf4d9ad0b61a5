"""Playbooks: the shipped ones are sound; each mistake is reported with file, line and the mend."""

import pytest

from oncall.errors import ConfigError
from oncall.playbook.loader import load, parse, shipped

GOOD = """playbook: tiny
title: Tiny
start: first
steps:
  first:
    ask: Has it stopped?
    reading: progress
    by hand: tail -n 1 {logs}/*.log
    branches: {moving: fine, stopped: second, unknown: second}
  second:
    ask: Any fault?
    reading: hardware
    by hand: dmesg -T
    branches: {fault: broken, clear: fine, unknown: fine}
conclusions:
  fine:
    title: Fine
    ending: nothing-wrong
    cause: Nothing.
  broken:
    title: Broken
    ending: cause-found
    cause: '{what}'
    actions:
      - say: Exclude {hosts}.
        command: exclude
    escalate: Call {hardware}.
"""


@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_shipped_playbooks_are_sound(name: str) -> None:
    assert load(name).playbook == name


def test_the_good_one_is_good() -> None:
    assert parse(GOOD, "tiny.yaml").start == "first"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("start: first", "start: frist", "tiny.yaml:3: starts at `frist`, which is no step; did you mean `first`?"),
        (
            "reading: progress",
            "reading: progres",
            "tiny.yaml:7: there is no reading `progres`; did you mean `progress`?",
        ),
        (", unknown: second}", "}", "tiny.yaml:9: no branch for `unknown`; every step says where unknown goes"),
        ("moving: fine, ", "", "tiny.yaml:9: no branch for `moving`; `progress` may say so"),
        ("moving: fine", "moving: fin", "tiny.yaml:9: leads to `fin`, which is nowhere; did you mean `fine`?"),
        (
            "moving: fine",
            "moving: fine, movin: fine",
            "tiny.yaml:9: `progress` never says `movin`; did you mean `moving`?",
        ),
        (
            "clear: fine, unknown: fine",
            "clear: first, unknown: fine",
            "tiny.yaml:5: goes in a circle: first → second → first",
        ),
        ("stopped: second, unknown: second", "stopped: fine, unknown: fine", "tiny.yaml:10: no branch leads here"),
        ("fault: broken", "fault: fine", "tiny.yaml:20: no branch leads here"),
        ("  fine:\n", "  second:\n", "tiny.yaml:16: `second` is a step too; give the conclusion another name"),
        ("ask: Any fault?", "ask: ''", "tiny.yaml:11: asks nothing; write the question"),
        ("    ask: Any fault?\n", "", "tiny.yaml:10: steps.second: the key `ask` is missing"),
        ("    by hand: dmesg -T\n", "", "tiny.yaml:10: has no `by hand`: give the command or query"),
        ("{logs}/*.log", "{log}/*.log", "tiny.yaml:8: nothing fills `{log}` in a command; did you mean `logs`?"),
        ("by hand: dmesg -T", "by hand: py-spy dump --pid PID", "tiny.yaml:13: `PID` cannot be pasted"),
        (
            "ending: cause-found",
            "ending: found",
            "tiny.yaml:22: conclusions.broken.ending: 'found' is none of 'cause-found', ",
        ),
        ("cause: '{what}'", "cause: '{who}'", "tiny.yaml:23: nothing fills `{who}`; there are `{run}`, `{what}`, "),
        ("cause: '{what}'", "cause: '{what'", "tiny.yaml:23: expected '}' before end of string; a brace"),
        ("Exclude {hosts}.", "Exclude {host}.", "tiny.yaml:25: nothing fills `{host}`; did you mean `hosts`?"),
        (
            "command: exclude",
            "command: reboot",
            "tiny.yaml:26: conclusions.broken.actions.0.command: 'reboot' is none of",
        ),
        (
            "    actions:\n      - say: Exclude {hosts}.\n        command: exclude\n",
            "",
            "tiny.yaml:20: says nothing to do; give it `actions`",
        ),
        (
            "        command: exclude\n",
            "",
            "tiny.yaml:25: does not say how: give it `command`, `by hand` or, where a person",
        ),
        (
            "command: exclude",
            "command: exclude\n        ask: hardware",
            "tiny.yaml:25: has more than one of `command`, `by hand` and `ask`; make it two actions",
        ),
        (
            "command: exclude",
            "by hand: ls {log}",
            "tiny.yaml:26: nothing fills `{log}` in a command; did you mean `logs`?",
        ),
        ("command: exclude", "by hand: kill -CONT PID", "tiny.yaml:26: `PID` cannot be pasted"),
        ("command: exclude", "ask: boss", "tiny.yaml:26: conclusions.broken.actions.0.ask: 'boss' is none of"),
        ("say: Exclude {hosts}.", "say: ''", "tiny.yaml:25: says nothing"),
        ("    escalate: Call {hardware}.\n", "", "tiny.yaml:20: does not say when to call whom; give it `escalate`"),
        ("title: Tiny", "titel: Tiny", "tiny.yaml:2: titel: unknown key; did you mean `title`?"),
        (
            "playbook: tiny",
            "playbook: tiny\nplaybook: two",
            "tiny.yaml:2: playbook: stands here a second time, first at 1",
        ),
        ("start: first", "start: [first", "tiny.yaml:4: "),
        ("playbook: tiny\n", "playbook: tiny\nextends: hung\n", "tiny.yaml:2: extends `hung`, which is not shipped"),
        ("title: Tiny\n", "", "tiny.yaml:1: the key `title` is missing"),
        ("title: Tiny", "title: [Tiny]", "tiny.yaml:2: title: Expected text, got a list"),
        (
            "title: Tiny",
            "title: Tiny: small",
            "tiny.yaml:2: mapping values are not allowed here; write text that",
        ),
        ("title: Tiny", "\ttitle: Tiny", "tiny.yaml:2: found character '\\t' that cannot start any token; indent with"),
    ],
)
def test_each_mistake_is_named_with_its_line(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        parse(GOOD.replace(old, new, 1), "tiny.yaml")
    assert any(problem.startswith(expected) for problem in caught.value.problems), caught.value.problems


def test_one_mistake_is_told_once() -> None:
    """Not also by what follows from it."""
    told = {
        "start: first": ("start: frist", 1),
        "stopped: second, unknown: second": ("stopped: fine, unknown: fine", 1),
        "{moving: fine, stopped: second, unknown: second}": ("{stopped: second}", 1),
    }
    for old, (new, count) in told.items():
        with pytest.raises(ConfigError) as caught:
            parse(GOOD.replace(old, new, 1), "tiny.yaml")
        assert len(caught.value.problems) == count, caught.value.problems
