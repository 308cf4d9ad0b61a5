"""What the README and the reference show is there, and what they tell to type can be typed."""

import importlib
import re
from pathlib import Path

import pytest

from oncall.cli import COMMANDS
from oncall.readings.kinds import KINDS
from oncall.run.file import parse

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "REFERENCE.md").read_text(encoding="utf-8")
NO_VERDICT = {"observation", "progress", "watchdog_timeout"}
"""Kinds of findings that no conclusion rests on alone."""


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)]+)\)", README + REFERENCE))))
def test_every_link_and_picture_leads_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


def test_the_first_screen_holds_what_to_type() -> None:
    assert "    oncall run42\n" in "\n".join(README.split("\n")[:10]) + "\n"


def test_every_kind_is_told_and_no_other() -> None:
    assert (
        set(re.findall(r"`([a-z_0-9]+)`", section(REFERENCE, "Kinds").partition("|---|")[2]))
        == KINDS.keys() - NO_VERDICT
    )


def test_the_example_of_a_run_file_is_one() -> None:
    example = section(README, "Describe a run").partition("```toml\n")[2].partition("```")[0]
    assert parse(example, "run42.toml", default_name="run42").name == "run42"


def test_every_command_is_one_and_none_is_left_out() -> None:
    typed = re.findall(r"(?:`|^    )oncall ([a-z]\w*)", README + REFERENCE, re.MULTILINE)
    assert {word for word in typed if word != "run42"} == COMMANDS.keys()


@pytest.mark.parametrize("option", sorted(set(re.findall(r"`[^`\n]*?(--[a-z][a-z-]+)[^`\n]*`", README + REFERENCE))))
def test_every_option_is_one_of_some_command(option: str) -> None:
    modules = [importlib.import_module(f"oncall.commands.{name}") for name in (*COMMANDS, "triage")]
    others = {"--help", "--log-dir", "--redirects"}
    assert option in others or any(f'"{option}"' in Path(module.__file__ or "").read_text() for module in modules)
