"""Playbooks: the shipped ones are sound; each mistake is reported with file, line and the mend."""

import subprocess
import tracemalloc

import pytest

from oncall.errors import ConfigError
from oncall.playbook.alerts import alert_names, rule_of
from oncall.playbook.by_hand import Where, commands
from oncall.playbook.lint import notes
from oncall.playbook.lint_commands import lint_by_hand
from oncall.playbook.loader import load, parse, shipped
from oncall.run.model import Run
from oncall.signals.run_queries import run_queries

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


@pytest.mark.parametrize("name", shipped())
def test_no_two_steps_of_a_shipped_playbook_are_the_same(name: str) -> None:
    ways = [(step.reading, tuple(step.branches.items())) for step in load(name).steps.values()]
    assert len(set(ways)) == len(ways)


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
        ("by hand: dmesg -T", "by hand: py-spy dump --pid <pid>", "tiny.yaml:13: `<pid>` cannot be pasted"),
        ("by hand: dmesg -T", "by hand: dmesg ...", "tiny.yaml:13: `...` cannot be pasted; write the whole command"),
        ("by hand: dmesg -T", "by hand: look at the kernel log", "tiny.yaml:13: is a sentence, no command"),
        ("by hand: dmesg -T", "by hand: Read dmesg", "tiny.yaml:13: is a sentence, no command"),
        ("by hand: dmesg -T", "by hand: dmesg | grep 'xid", "tiny.yaml:13: is no shell command: no closing quotation"),
        ("by hand: dmesg -T", "by hand: dmesg | grep \u201cxid\u201d", "tiny.yaml:13: `\u201c` is no quote to a shell"),
        ("by hand: dmesg -T", "by hand: 'promql: '", "tiny.yaml:13: nothing stands after `promql:`"),
        ("command: exclude", "by hand: look at the node", "tiny.yaml:26: is a sentence, no command"),
        (
            "start: first",
            "start: first\nalert: TrainingStepStaled",
            "tiny.yaml:4: no rule is called `TrainingStepStaled`",
        ),
        (
            "playbook: tiny",
            "playbook: other",
            "tiny.yaml:1: is called `other`, and is found by the name of its file, `tiny`",
        ),
        ("start: first\n", "", "tiny.yaml:1: the key `start` is missing"),
        ("title: Tiny", "title: Ti\x00ny", "tiny.yaml:2: unacceptable character"),
        (
            "ending: cause-found",
            "ending: found",
            "tiny.yaml:22: conclusions.broken.ending: 'found' is none of 'cause-found', ",
        ),
        ("cause: '{what}'", "cause: '{who}'", "tiny.yaml:23: nothing fills `{who}`; there are `{run}`, `{what}`, "),
        ("cause: '{what}'", "cause: '{what'", "tiny.yaml:23: expected '}' before end of string; a brace"),
        (
            "cause: '{what}'",
            "cause: '{what:>999999999}'",
            "tiny.yaml:23: write `{what}` with nothing after the name",
        ),
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


BOMB = "\n".join(
    f"{name}: &{name} [{', '.join([f'*{before}' if before else 'x'] * 9)}]"
    for before, name in zip(["", *"abcde"], "abcdef", strict=True)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{BOMB}\nplaybook: *f\n", "tiny.yaml:5: holds more than 20,000 keys and values, aliases written out"),
        ("title: x\nsteps: &a [*a]\n", "tiny.yaml:2: an alias stands within what it is an alias of"),
        ("title: x\nsteps: " + "[" * 5000, "tiny.yaml:2: nested deeper than 12 levels"),
        ("title: x\nsteps:\n" + "".join(" " * n + f"k{n}:\n" for n in range(1, 500)), "tiny.yaml:13: nested deeper"),
        ("\n".join(f"k{n}: 1" for n in range(10_100)), "tiny.yaml:10001: holds more than 20,000 keys and values"),
    ],
    ids=["aliases of aliases", "an alias of itself", "brackets", "indents", "keys"],
)
def test_what_grows_out_of_hand_is_refused_before_it_does(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, "tiny.yaml")
    assert caught.value.problems[0].startswith(expected)


def test_aliases_of_aliases_are_not_written_out() -> None:
    """Seven lines stand for 9^6 values, which take 400 MB."""
    tracemalloc.start()
    with pytest.raises(ConfigError):
        parse(f"{BOMB}\nplaybook: *f\n", "tiny.yaml")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 1024 * 1024


def test_a_value_that_is_used_twice_may_be_an_alias() -> None:
    twice = GOOD.replace("by hand: tail -n 1 {logs}/*.log", "by hand: &log tail -n 1 {logs}/*.log")
    assert parse(twice.replace("by hand: dmesg -T", "by hand: *log"), "tiny.yaml").steps["second"].by_hand


def test_a_key_that_stands_twice_is_told_once_with_all_that_it_holds() -> None:
    again = "  first:\n    ask: x\n    reading: progress\nconclusions:"
    with pytest.raises(ConfigError) as caught:
        parse(GOOD.replace("conclusions:", again, 1), "tiny.yaml")
    assert [each for each in caught.value.problems if "second time" in each] == [
        "tiny.yaml:15: steps.first: stands here a second time, first at 5"
    ]


BROKEN_SHELL = ("dmesg | grep 'xid", "dmesg |", "ls && ", "for p in $(pgrep x); do echo $p", "(ls", "if true; then ls")
SOUND_SHELL = (
    "case $1 in a) ls;; esac",
    "sort <in.txt >/tmp/out",
    "sort <a >b",
    "grep -c '<pid>' log",
    "git log a...b",
    "test -d /x || echo it is not there; ls",
    "for p in $(pgrep python); do py-spy dump --pid $p; done",
    'find . -name "the log" -exec ls {} \\;',
    "kubectl get pods",
)


def shell_takes(command: str) -> bool:
    return subprocess.run(["sh", "-n", "-c", command], capture_output=True, check=False).returncode == 0


def test_lint_and_a_shell_agree_on_what_is_a_command() -> None:
    """`sh -n` reads a command and runs nothing of it."""
    assert [command for command in BROKEN_SHELL if shell_takes(command) or not list(lint_by_hand(command))] == []
    assert [command for command in SOUND_SHELL if not shell_takes(command) or list(lint_by_hand(command))] == []


def test_a_shell_takes_every_command_of_the_shipped_playbooks() -> None:
    run = Run(nodes="node[001-002]")
    told = [step.by_hand for name in shipped() for step in load(name).steps.values()]
    leaves = [leaf for name in shipped() for leaf in load(name).conclusions.values()]
    told += [action.by_hand for leaf in leaves for action in leaf.actions if action.by_hand]
    texts = {each.text for text in told for each in commands(run, text) if each.where is not Where.PROMETHEUS}
    assert texts
    assert shell_takes("\n".join(texts)), [text for text in texts if not shell_takes(text)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('sum(rate(x{run="{run}"}[5m])', "is no PromQL: `(` is not closed"),
        ("sum(x))", "is no PromQL: `)` closes nothing"),
        ('x{run="a}', "is no PromQL: a quote is not closed"),
        ("sum(x) /", "is no PromQL: it ends in the middle of an expression"),
        ("train_loss train_mfu", "is no PromQL: nothing joins `train_loss` and `train_mfu`"),
        ("max(train_los)", "no exporter gives `train_los`; did you mean `train_loss`?"),
        ("max(DCGM_FI_DEV_SM_CLOK)", "no exporter gives `DCGM_FI_DEV_SM_CLOK`; did you mean `DCGM_FI_DEV_SM_CLOCK`?"),
    ],
)
def test_a_query_that_is_none_is_told(query: str, expected: str) -> None:
    assert list(lint_by_hand(f"promql: {query}")) == [expected]


def test_every_query_that_prometheus_takes_is_sound() -> None:
    """The rules are those that promtool checks; the signals are asked of a real Prometheus elsewhere."""
    texts = [rule.expression for name in alert_names() if (rule := rule_of(name))]
    texts += run_queries(Run(nodes="node[001-002]")).values()
    assert [
        (text, list(lint_by_hand(f"promql: {text}"))) for text in texts if list(lint_by_hand(f"promql: {text}"))
    ] == []


def test_an_alert_and_a_metric_of_the_sites_own_are_noted_and_no_mistake() -> None:
    own = GOOD.replace("start: first", "start: first\nalert: OurStorageSlow")
    own = own.replace("by hand: dmesg -T", "by hand: 'promql: max(train_expert_balance) + max(our_pdu_watts)'")
    told = list(notes(parse(own, "tiny.yaml")))
    assert len(told) == 2
    assert "`OurStorageSlow`" in told[0]
    assert "`train_expert_balance`" in told[1]
    assert list(notes(parse(GOOD, "tiny.yaml"))) == []
