"""The on-call manual: all of it can be pasted, every link leads somewhere, everything is filled in for the run."""

import html.parser
import re
import subprocess
from collections.abc import Sequence
from importlib import resources

import pytest

from oncall.playbook.by_hand import commands
from oncall.playbook.loader import load, parse, shipped
from oncall.playbook.model import Playbook
from oncall.playbook.pasting import on_nodes
from oncall.playbook.runbook import runbook
from oncall.playbook.runbook_block import Block
from oncall.playbook.runbook_pages import as_html, as_markdown
from oncall.readings.registry import READINGS
from oncall.run.file import parse as parse_run
from oncall.run.model import Run

RUN = parse_run(
    """nodes = "node[001-128]"
[reach]
user = "train"
port = 2222
[paths]
logs = "/work/run 42/logs"
dumps = "/work/run42/comm_traces/rank_"
checkpoints = "/work/run42/checkpoints"
[prometheus]
url = "https://prometheus.example.com/"
[actions]
exclude = "scontrol update nodename={host} state=drain reason={reason}"
restart = "sbatch --export=ALL,RESUME_STEP={step} /work/{run}/train.sbatch"
[contacts]
second_line = "train-oncall@example.com"
hardware = "dc-ops@example.com"
""",
    "run42.toml",
    default_name="run42",
)


TEMPLATE = resources.files("oncall.run").joinpath("template.toml").read_text(encoding="utf-8")
RUNS = {
    "filled in": RUN,
    "as `oncall init` writes it": parse_run(TEMPLATE, "run42.toml", default_name="run42"),
    "none": Run(nodes="NODES", name="RUN"),
}


@pytest.fixture(scope="module")
def playbooks() -> list[Playbook]:
    return [load(name) for name in sorted(shipped())]


@pytest.fixture(scope="module", params=RUNS)
def any_manual(request: pytest.FixtureRequest, playbooks: list[Playbook]) -> tuple[Block, ...]:
    """Of a run that is filled in, of one that is not, and of none."""
    return runbook(RUNS[request.param], playbooks)


@pytest.fixture(scope="module")
def manual(playbooks: list[Playbook]) -> tuple[Block, ...]:
    return runbook(RUN, playbooks)


@pytest.mark.parametrize("reading", READINGS)
def test_each_answer_of_a_check_is_explained(reading: str) -> None:
    """A person decides by hand what the reading decides: by the same words."""
    text = f"""playbook: p
title: P
start: s
steps:
  s:
    ask: What is it?
    reading: {reading}
    by hand: uptime
    branches: {{{", ".join(f"{verdict}: end" for verdict in READINGS[reading].verdicts)}}}
conclusions:
  end: {{title: End, ending: nothing-wrong, cause: Nothing.}}
"""
    told = [block.text for block in runbook(RUN, [parse(text, "p.yaml")]) if block.anchor == "p-end" and block.label]
    assert sorted(each.partition("`: ")[0] for each in told) == sorted(
        f"`{each}" for each in READINGS[reading].verdicts
    )
    assert all(len(each.partition("`: ")[2]) > len("no →") for each in told)


def test_what_the_run_file_says_is_one_word_of_a_command() -> None:
    run = parse_run(
        'nodes = "n1"\n[reach]\nvia = "local"\n[paths]\nlogs = "/a b"\n[processes]\nmatch = "pre train"\n',
        "r",
        default_name="r",
    )
    (logs,) = commands(run, "ls {logs}/*; pgrep -f {match}; ls {checkpoints}")
    assert logs.text == "ls '/a b'/*; pgrep -f 'pre train'; ls PATHS.CHECKPOINTS"


def codes(blocks: Sequence[Block]) -> list[str]:
    return [block.text for block in blocks if block.kind == "code"]


def under(manual: Sequence[Block], anchor: str) -> Sequence[Block]:
    """What stands between a heading and the next."""
    at = next(n for n, block in enumerate(manual) if block.kind == "heading" and block.anchor == anchor)
    end = next((n for n, block in enumerate(manual[at + 1 :], at + 1) if block.kind == "heading"), len(manual))
    return manual[at + 1 : end]


def test_every_check_has_something_to_paste(any_manual: tuple[Block, ...], playbooks: list[Playbook]) -> None:
    for playbook in playbooks:
        for step in playbook.steps:
            told = under(any_manual, f"{playbook.playbook}-{step}")
            assert any(block.kind in {"code", "query"} for block in told), (playbook.playbook, step)


def test_every_action_has_something_to_paste_or_somebody_to_ask(
    any_manual: tuple[Block, ...], playbooks: list[Playbook]
) -> None:
    for playbook in playbooks:
        for name, leaf in playbook.conclusions.items():
            told = under(any_manual, f"{playbook.playbook}-{name}")
            numbered = [n for n, block in enumerate(told) if block.kind == "text" and re.match(r"\d+\. ", block.text)]
            assert len(numbered) == len(leaf.actions)
            for at in numbered:
                pasted = at + 1 < len(told) and told[at + 1].kind in {"code", "query"}
                assert pasted or re.search(r"Ask .+\.$", told[at].text), (playbook.playbook, name, told[at].text)


def test_checks_lead_onward(manual: tuple[Block, ...]) -> None:
    """Whoever reads on meets no check that an answer further down leads to."""
    number = 0
    for block in manual:
        if block.kind == "heading":
            number = int(block.text.partition(".")[0]) if block.level == 4 and block.text[0].isdigit() else 0
        elif number and block.label and block.label.startswith("check "):
            assert int(block.label.removeprefix("check ")) > number, block


def test_every_command_is_one_that_a_shell_can_read(any_manual: tuple[Block, ...]) -> None:
    for command in set(codes(any_manual)):
        checked = subprocess.run(["sh", "-n"], input=command, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, (command, checked.stderr)


def test_nothing_is_left_to_fill_in_but_what_only_the_incident_tells(manual: tuple[Block, ...]) -> None:
    for block in manual:
        assert "PATHS." not in block.text or "the run file does not say" in block.text, block
        assert "{" not in block.text or block.kind in {"query", "item", "code"}, block
    assert not [command for command in codes(manual) if "PID" in command]


def test_a_path_that_is_not_known_is_no_command_by_itself() -> None:
    """A folder that nobody named must not become the one where the shell stands."""
    run = RUNS["as `oncall init` writes it"]
    fetched = [each for each in codes(runbook(run, [load("hang")])) if "--rcopy" in each]
    assert fetched
    assert all("--rcopy PATHS.DUMPS " in each for each in fetched)


def test_every_link_leads_somewhere(manual: tuple[Block, ...]) -> None:
    headings = [block.anchor for block in manual if block.kind == "heading"]
    assert len(headings) == len(set(headings))
    assert {block.anchor for block in manual if block.label} <= set(headings)


def test_the_site_is_filled_in(manual: tuple[Block, ...]) -> None:
    text = as_markdown(manual)
    assert "scontrol update nodename=HOST state=drain reason='oncall: found on call'" in text
    assert "RESUME_STEP=STEP /work/run42/train.sbatch" in text
    assert "Stop the job; the run file names no command of this site (`actions.stop`):" in text
    assert "clush -bw HOST -l train -o '-p 2222' -- " in text
    assert "clush -bw 'node[001-128]' -l train -o '-p 2222' -- " in text
    assert "call dc-ops@example.com" in text
    assert "- Hardware: dc-ops@example.com" in text
    assert "- Data: the run file names nobody (`contacts.data`); call the second line" in text
    assert "- TrainingStepStalled (page): [The job has stopped](#hang)" in text
    assert "https://prometheus.example.com/api/v1/query --data-urlencode" in text


def test_each_playbook_names_an_alert_that_is_shipped(manual: tuple[Block, ...]) -> None:
    told = [block.text for block in manual if block.text.endswith(" fires on:")]
    assert len(told) == len(shipped())


def test_what_pages_first_comes_first(manual: tuple[Block, ...]) -> None:
    """The order of the alert rules: a stop before a slowdown."""
    chapters = [block.anchor for block in manual if block.level == 2]
    assert chapters[:3] == ["quick-reference", "contacts", "hang"]
    assert sorted(chapters[2:], key=str) == sorted(shipped())


def words(command: str) -> list[str]:
    """What a shell makes of a command."""
    script = f"clush() {{ printf '%s\\0' \"$@\"; }}; {command}"
    return subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    "command",
    [
        "grep 'a b' /x",
        "for p in $(pgrep python); do echo $p; done",
        "awk '$2 ~ /^D/'",
        "xargs -d '\\n' echo \"`id`\"",
        "echo 'no!'",
    ],
)
def test_a_command_arrives_on_the_nodes_as_it_was_written(command: str) -> None:
    assert words(on_nodes(RUN, command))[-1] == command


class Page(html.parser.HTMLParser):
    """Checks that tags close in order, and collects ids, links and tag names."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.add(value or "")
            if name == "href":
                self.links.add(value or "")
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(manual: tuple[Block, ...]) -> None:
    page = Page()
    page.feed(as_html(manual))
    assert page.open == []
    assert {link.removeprefix("#") for link in page.links} <= page.ids
    assert not page.tags & {"script", "link", "img", "iframe"}


def test_words_of_a_playbook_are_no_markup() -> None:
    text = """playbook: p
title: <script>alert(1)</script>
start: a
steps:
  a:
    ask: <img src=x>?
    reading: progress
    by hand: echo '<b>'
    branches: {moving: fine, stopped: fine, unknown: fine}
conclusions:
  fine: {title: "</pre>", ending: nothing-wrong, cause: "<i>"}
"""
    told = runbook(RUN, [parse(text, "p.yaml")])
    page = Page()
    page.feed(as_html(told))
    assert not page.tags & {"script", "img", "b", "i"}
    assert not re.search(r"(?<!\\)<(?:script|img|i)\b", as_markdown(told))
