"""The on-call manual: every check can be pasted, every link leads somewhere, everything is filled in for the run."""

import html.parser
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from oncall.playbook.by_hand import commands
from oncall.playbook.loader import load, parse, shipped
from oncall.playbook.runbook import Block, runbook
from oncall.playbook.runbook_pages import as_html, as_markdown
from oncall.readings.registry import READINGS
from oncall.run.file import parse as parse_run

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


@pytest.fixture(scope="module")
def manual() -> tuple[Block, ...]:
    return runbook(RUN, [load(name) for name in sorted(shipped())])


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
    (told,) = [block.text for block in runbook(RUN, [parse(text, "p.yaml")]) if block.text.startswith("Answers: ")]
    assert [verdict for verdict in READINGS[reading].verdicts if f"`{verdict}`: " not in told] == []


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


def test_every_check_has_something_to_paste(manual: tuple[Block, ...]) -> None:
    for name in shipped():
        for step in load(name).steps:
            at = next(n for n, b in enumerate(manual) if b.kind == "heading" and b.anchor == f"{name}-{step}")
            end = next(n for n, b in enumerate(manual[at + 1 :], at + 1) if b.kind == "heading")
            assert any(block.kind in {"code", "query"} for block in manual[at:end]), (name, step)


def test_every_command_is_one_that_a_shell_can_read(manual: tuple[Block, ...]) -> None:
    for command in set(codes(manual)):
        checked = subprocess.run(["sh", "-n"], input=command, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, (command, checked.stderr)


def test_nothing_is_left_to_fill_in_but_what_only_the_incident_tells(manual: tuple[Block, ...]) -> None:
    for block in manual:
        assert "<paths." not in block.text, block
        assert "{" not in block.text or block.kind in {"query", "item", "code"}, block
    assert not [command for command in codes(manual) if "PID" in command]


def test_every_link_leads_somewhere(manual: tuple[Block, ...]) -> None:
    headings = [block.anchor for block in manual if block.kind == "heading"]
    assert len(headings) == len(set(headings))
    assert {block.anchor for block in manual if block.kind == "item" and block.anchor} <= set(headings)


def test_the_site_is_filled_in(manual: tuple[Block, ...]) -> None:
    text = as_markdown(manual)
    assert "scontrol update nodename=HOST state=drain reason='oncall: found on call'" in text
    assert "RESUME_STEP=STEP /work/run42/train.sbatch" in text
    assert "Stop: the run file names no command (`[actions]`, `stop`)." in text
    assert "clush -bw 'node[001-128]' -l train -o '-p 2222' -- " in text
    assert "call dc-ops@example.com" in text
    assert "- Numerics: train-oncall@example.com" in text
    assert "Alert TrainingStepStalled (page):" in text
    assert "https://prometheus.example.com/api/v1/query --data-urlencode" in text


def test_each_playbook_names_an_alert_that_is_shipped(manual: tuple[Block, ...]) -> None:
    told = [block.text for block in manual if block.text.startswith("Alert ")]
    assert len(told) == len(shipped())


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


def test_words_of_a_playbook_are_no_markup(tmp_path: Path) -> None:
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
    page = Page()
    page.feed(as_html(runbook(RUN, [parse(text, "p.yaml")])))
    assert not page.tags & {"script", "img", "b", "i"}
