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
    branches: {moving: fine, stopped: second, unknown: second}
  second:
    ask: Any fault?
    reading: hardware
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
        (", unknown: second}", "}", "tiny.yaml:8: no branch for `unknown`; every step says where unknown goes"),
        ("moving: fine, ", "", "tiny.yaml:8: no branch for `moving`; `progress` may say so"),
        ("moving: fine", "moving: fin", "tiny.yaml:8: leads to `fin`, which is nowhere; did you mean `fine`?"),
        (
            "moving: fine",
            "moving: fine, movin: fine",
            "tiny.yaml:8: `progress` never says `movin`; did you mean `moving`?",
        ),
        (
            "clear: fine, unknown: fine",
            "clear: first, unknown: fine",
            "tiny.yaml:5: goes in a circle: first → second → first",
        ),
        ("stopped: second, unknown: second", "stopped: fine, unknown: fine", "tiny.yaml:9: no branch leads here"),
        ("fault: broken", "fault: fine", "tiny.yaml:18: no branch leads here"),
        ("ask: Any fault?", "ask: ''", "tiny.yaml:10: asks nothing"),
        ("    ask: Any fault?\n", "", "tiny.yaml:9: steps.second: the key `ask` is missing"),
        ("ending: cause-found", "ending: found", "tiny.yaml:20: conclusions.broken.ending: Invalid enum value 'found'"),
        ("title: Tiny", "titel: Tiny", "tiny.yaml:2: titel: unknown key; did you mean `title`?"),
        (
            "playbook: tiny",
            "playbook: tiny\nplaybook: two",
            "tiny.yaml:2: playbook: stands here a second time, first at 1",
        ),
        ("start: first", "start: [first", "tiny.yaml:4: "),
    ],
)
def test_each_mistake_is_named_with_its_line(old: str, new: str, expected: str) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError) as caught:
        parse(GOOD.replace(old, new, 1), "tiny.yaml")
    assert any(problem.startswith(expected) for problem in caught.value.problems), caught.value.problems
