"""A site's own playbook may hold only what differs from a shipped one."""

import pytest

from oncall.errors import ConfigError
from oncall.playbook.loader import load, parse

OWN = """extends: hang
title: The job has stopped, as our site asks
steps:
  alive-while-running:
    ask: Is every rank there, on our side of the wall?
    reading: alive
    by hand: our-tool ranks
    branches:
      all-alive: healthy
      gone: ours
      stopped: ours
      blocked: ours
      job-gone: ours
      unknown: running-partly-seen
conclusions:
  ours:
    title: Ours
    ending: undecided
    cause: Look at the wall.
    actions:
      - say: Look.
        ask: second_line
"""


def test_a_step_is_replaced_and_the_rest_is_as_shipped() -> None:
    own, base = parse(OWN, "hang.yaml"), load("hang")
    assert (own.playbook, own.alert, own.start) == (base.playbook, base.alert, base.start)
    assert own.title == "The job has stopped, as our site asks"
    assert own.steps["alive-while-running"].by_hand == "our-tool ranks"
    assert own.conclusions["ours"].title == "Ours"
    assert {name: step for name, step in own.steps.items() if name != "alive-while-running"} == {
        name: step for name, step in base.steps.items() if name != "alive-while-running"
    }


def test_what_nothing_leads_to_any_more_is_left_out() -> None:
    own = parse(OWN.replace("extends: hang", "extends: hang\nstart: alive-while-running"), "hang.yaml")
    assert own.steps.keys() == {"alive-while-running"}
    assert own.conclusions.keys() == {"healthy", "ours", "running-partly-seen"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("gone: ours", "gone: our", "hang.yaml:10: leads to `our`, which is nowhere; did you mean `ours`?"),
        ("reading: alive", "reading: alife", "hang.yaml:6: there is no reading `alife`; did you mean `alive`?"),
        ("gone: ours", "gone: progress", "goes in a circle: progress → hardware-while-running → alive-while-running"),
        ("steps:", "steps: none\nbranches:", "hang.yaml:3: steps: expected a mapping of names"),
        ("  ours:\n", "  theirs:\n", "hang.yaml:10: leads to `ours`, which is nowhere"),
    ],
)
def test_mistakes_are_named_where_they_stand(old: str, new: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(OWN.replace(old, new, 1), "hang.yaml")
    assert any(expected in problem for problem in caught.value.problems), caught.value.problems


def test_a_mistake_that_the_change_makes_in_the_shipped_part_is_named_there() -> None:
    """A new conclusion with the name of a shipped step: the step stands in the shipped file."""
    with pytest.raises(ConfigError) as caught:
        parse(OWN.replace("ours", "watchdog"), "hang.yaml")
    assert any("`watchdog` is a step too" in problem for problem in caught.value.problems), caught.value.problems
