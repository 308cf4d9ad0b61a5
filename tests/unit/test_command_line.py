"""The command line itself: closed, full and foreign streams, slips of the fingers, and what helps out of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncall.cli import COMMANDS, main

ONCALL = [sys.executable, "-c", "import sys; from oncall.cli import main; sys.exit(main())"]


def through_shell(redirected: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run oncall as a shell with these redirections would."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirected}', "sh", *ONCALL, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
    )


def test_a_closed_standard_output_is_said_and_not_an_answer_given_to_nobody() -> None:
    ended = through_shell(">&-", "schema", "triage")
    assert ended.returncode == 2
    assert "standard output is closed" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full"])
def test_where_nobody_hears_the_complaint_the_exit_code_is_the_same(redirected: str) -> None:
    assert through_shell(redirected, "no-such-run").returncode == 2


def test_a_closed_standard_input_is_an_empty_one() -> None:
    assert through_shell("<&-", "xid").returncode == 12


def test_a_full_disk_under_the_answer_is_named_and_no_fault_of_the_product() -> None:
    ended = through_shell(">/dev/full", "schema", "triage")
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert "internal error" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_help_goes_through_what_the_terminal_cannot_show_are_escaped() -> None:
    ended = through_shell("", "playbook", "--help", PYTHONIOENCODING="ascii")
    assert ended.returncode == 0
    assert "BUNDLE\\u2026" in ended.stdout


def test_json_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    log = tmp_path / "é.log"
    log.write_text("[ 1.000000] eth0: up\n")
    ended = subprocess.run(
        [*ONCALL, "xid", "--json", str(log)],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
    )
    assert json.loads(ended.stdout.decode("utf-8"))["files"][0]["file"] == str(log)


@pytest.mark.parametrize(("word", "meant"), [("replya", "oncall replay"), ("triage", "oncall RUN --triage")])
def test_a_slip_of_the_fingers_is_answered_with_what_was_meant(
    word: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([word, "x"]) == 2
    assert f"did you mean `{meant}`?" in capsys.readouterr().err


def test_a_run_that_is_called_nearly_as_a_command_is_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replay2.toml").write_text("noodles = 1\n")
    assert main(["replay2"]) == 2
    assert "replay2.toml:1: noodles: unknown key" in capsys.readouterr().err


def test_no_words_are_a_mistake_and_help_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    asked = capsys.readouterr()
    assert (asked.out, asked.err.startswith("usage: oncall RUN")) == ("", True)
    assert main(["help"]) == 0
    told = capsys.readouterr().out
    assert all(f"\n  {name} " in told for name in COMMANDS)


def test_memory_that_does_not_suffice_is_said_in_those_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def starve(_: object) -> int:
        raise MemoryError

    monkeypatch.setattr("oncall.commands.schema.run", starve)
    assert main(["schema"]) == 1
    assert capsys.readouterr().err.startswith("oncall: not enough memory\n")
