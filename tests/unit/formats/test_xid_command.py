"""`oncall xid`: explains codes, and what a kernel log holds."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from oncall.cli import main

LOST = "[    1.000000] NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.\n"
APP = "[    1.000000] NVRM: Xid (PCI:0000:4f:00): 43, pid=4, name=python3, Ch 00000010\n"
UNKNOWN = "[    1.000000] NVRM: Xid (PCI:0000:4f:00): 231, something new\n"


def run(*arguments: str) -> int:
    return main(["xid", *arguments])


def answer(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def write(folder: Path, text: str) -> str:
    path = folder / "dmesg.txt"
    path.write_text(text)
    return str(path)


def test_a_code_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("79") == 0

    text = capsys.readouterr().out
    assert text.startswith("Xid 79: ")
    assert "hardware" in text
    assert "drain the node" in text
    assert "page      yes" in text
    assert "disagree" not in text


def test_disagreeing_sources_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    run("109")

    text = capsys.readouterr().out
    assert "nvidia: reset, reboot or inspect" in text
    assert "gpud: leave the GPU alone or restart the job" in text


def test_codes_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("79", "231", "20034", "3", "--json") == 0

    said = answer(capsys)
    assert said["schema"] == "oncall.xid/1"
    lost, unknown, switch, reserved = said["codes"]
    assert (lost["xid"], lost["known"], lost["page"], lost["cause_class"]) == (79, True, True, "hardware")
    assert unknown == {"xid": 231, "known": False}
    assert (switch["sxid"], switch["switch_unit"], switch["page"]) == (20034, "data link layer (DLPL)", True)
    assert (reserved["known"], reserved["meaning"], reserved["page"]) == (True, None, None)


def test_an_unknown_code_is_not_called_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("231") == 0

    text = capsys.readouterr().out
    assert "in no table" in text
    assert "page      no" not in text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (LOST, 10),
        (APP, 0),
        (UNKNOWN, 11),
        ("", 12),
        ("[ 1.000000] eth0: up\n", 0),
        ("NVRM: Xid (PCI:0000\n", 11),
        ("dear diary\n", 12),
        ("79\n", 12),
        ("\0\0\0\0", 12),
    ],
)
def test_exit_code_says_whether_to_wake_somebody(text: str, code: int, tmp_path: Path) -> None:
    assert run(write(tmp_path, text)) == code


def test_the_silence_of_what_is_no_kernel_log_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json", write(tmp_path, "dear diary\n")) == 12
    said = capsys.readouterr()
    assert json.loads(said.out)["files"][0]["kernel_log"] is False
    assert "has no line of a kernel log; `oncall read` takes any file" in said.err


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_a_log_that_was_rotated_and_packed(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "kern.log.2"
    path.write_bytes(pack(LOST.encode()))
    assert run(str(path)) == 10


def test_nothing_in_half_a_packed_log_is_not_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kern.log.2.gz"
    quiet = "".join(f"[ {second}.000000] eth0: up {second * 7919 % 104729}\n" for second in range(20_000))
    path.write_bytes(gzip.compress(quiet.encode())[:-5000])
    assert run(str(path)) == 12
    assert "is cut short or damaged" in capsys.readouterr().err


def test_a_log_from_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = io.TextIOWrapper(io.BytesIO(LOST.encode()))
    monkeypatch.setattr("sys.stdin", pipe)

    assert run() == 10

    text = capsys.readouterr().out
    assert "GPU 0000:4f:00" in text
    assert "Xid 79: " in text


def test_events_of_a_log_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stamped = "2026-03-03T04:05:06+01:00 node-a07 kernel: " + LOST.split("] ", 1)[1]
    run("--json", write(tmp_path, stamped + LOST))

    (file,) = answer(capsys)["files"]
    first, second = file["events"]
    assert (first["at"], first["uncertainty_s"], first["page"]) == ("2026-03-03T03:05:06Z", 1.0, True)
    assert (second["at"], second["uncertainty_s"]) == (None, None)
    assert file["summary"]["root_causes"] == {"0000:4f:00": 79}


def test_control_characters_of_a_log_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(write(tmp_path, "INFO: task \x1b]0;owned\x07:12 blocked for more than 120 seconds.\n"))

    text = capsys.readouterr().out
    assert "owned" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_missing_file_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("no-such-file") == 2
    assert "no-such-file" in capsys.readouterr().err


def test_a_number_that_is_no_code_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("1234567") == 2
    assert "no code" in capsys.readouterr().err


def test_nothing_to_explain_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)

    assert run() == 2
    assert "oncall xid 79" in capsys.readouterr().err


def test_an_empty_log_is_called_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "dmesg"
    log.touch()
    assert main(["xid", str(log)]) == 12
    assert capsys.readouterr().out == f"{log}: empty, so nothing is known\n"


@pytest.mark.parametrize("code", range(200))
def test_no_word_of_the_table_holds_an_escape(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xid", str(code)]) == 0
    assert "\\" not in capsys.readouterr().out
