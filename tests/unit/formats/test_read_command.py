"""The command `oncall read`: recognition, several files, bad files, and a terminal that stays safe."""

import gzip
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from oncall.cli import main
from oncall.formats.recognise import Format, rank_of_path, recognise

STEP = (
    b" iteration       10/   50000 | consumed samples:         5120 | elapsed time per iteration (ms): 3310.4 | "
    b"learning rate: 6.000000E-07 | lm loss: 1.081234E+01 | number of skipped iterations:   0 |\n"
)
XID = b"[902117.331062] NVRM: Xid (PCI:0000:4f:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


def answer(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> Any:
    assert main(["read", "--json", *argv]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank6/stderr.log", 6),
        ("logs/rank_12/stdout.log", 12),
        ("dump-rank0.txt", 0),
        ("training.global_rank_3.20260504-100000.jsonl", 3),
        ("run/attempt_0/3/stderr.log", None),
        ("local_rank3.log", None),
        ("node_rank_1/rank9.log", 9),
        ("frank7.log", None),
    ],
)
def test_rank_from_path(path: str, rank: int | None) -> None:
    assert rank_of_path(path) == rank


@pytest.mark.parametrize(
    ("data", "known"),
    [
        (b"", Format.EMPTY),
        (b"\n \n", Format.EMPTY),
        (STEP, Format.TRAINING),
        (XID, Format.KERNEL),
        (XID * 3 + STEP, Format.KERNEL),
        (XID + STEP * 3, Format.TRAINING),
        (b"# HELP x y\n# TYPE x gauge\nx 1\n", Format.METRICS),
        (b"Process 5: python x\nPython v3.11 (/p)\n", Format.PYSPY),
        (b"Error: Failed to suspend process\nReason: EPERM: Operation not permitted\n", Format.PYSPY),
        (b"\x80\x02}q\x00.", Format.FLIGHT_RECORDER),
        (b"dear diary\n", Format.TEXT),
    ],
)
def test_recognition(data: bytes, known: Format) -> None:
    assert recognise(data) is known


def test_missing_file_does_not_stop_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_bytes(STEP)
    said = answer(capsys, str(tmp_path / "none.log"), str(tmp_path / "a.log"), code=2)
    assert [each["error"] for each in said["files"]] == ["No such file or directory", None]
    assert said["summary"]["last_step"] == 10


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_packed_files_are_read(pack: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_bytes(pack(STEP))
    assert answer(capsys, str(tmp_path / "a.log"))["summary"]["steps"] == 1


def test_broken_archive_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.gz").write_bytes(b"\x1f\x8bnot really")
    said = answer(capsys, str(tmp_path / "a.gz"), code=2)
    assert "cannot be unpacked" in said["files"][0]["error"]


def test_files_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rank4").mkdir()
    (tmp_path / "rank4" / "out.log").write_bytes(STEP)
    (tmp_path / "zero.log").write_bytes(STEP)
    said = answer(capsys, str(tmp_path), "--rank", "2")
    assert [each["rank"] for each in said["events"]] == [4, 2]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(XID)))
    assert answer(capsys, "-")["files"][0]["format"] == "kernel-log"


def test_unknown_text_is_not_called_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_bytes(b"dear diary\n")
    said = answer(capsys, str(tmp_path / "a.txt"))
    assert said["summary"] == {}
    assert main(["read", str(tmp_path / "a.txt")]) == 0
    assert "nothing: no line of these files was understood" in capsys.readouterr().out


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;owned\x07\x9b31m\u202e"
    (tmp_path / "rank1").mkdir()
    (tmp_path / "rank1" / "a.log").write_text(
        f"[rank1]:[F707 23:04:21.0 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0 Rank 1] Terminating the process after "
        f"attempting to dump debug info, due to {evil}that.\n"
    )
    assert main(["read", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "process_terminate" in shown
    assert not set(shown) & set("\x1b\x07\x9b\u202e")


def test_recorder_dump_that_is_none_is_refused_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dump_0").write_bytes(b"\x80\x02cos\nsystem\nq\x00X\x02\x00\x00\x00idq\x01\x85q\x02Rq\x03.")
    said = answer(capsys, str(tmp_path / "dump_0"))
    coverage = said["summary"]["flight_recorder"]["coverage"]
    assert (coverage["dumps"], len(coverage["refused"])) == (0, 1)


def test_kinds_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", "--kinds"]) == 0
    shown = capsys.readouterr().out
    assert "watchdog_failure (nccl):" in shown
    assert "dataloader_wait" in shown


def test_no_file_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read"]) == 2
    assert "no file to read" in capsys.readouterr().err


def test_one_line_is_not_called_lines_and_a_missing_file_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dmesg").write_bytes(XID)
    assert main(["read", str(tmp_path / "dmesg"), str(tmp_path / "none")]) == 2
    out = capsys.readouterr().out
    assert f"{tmp_path / 'dmesg'}: kernel-log, 1 line, 1 event\n" in out
    assert f"{tmp_path / 'none'}: not read: No such file or directory\n" in out


def test_a_folder_that_cannot_be_listed_is_named_and_the_rest_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of another job's that ends while it is read; nobody's rights stop the tests' own user."""
    (tmp_path / "dmesg").write_bytes(XID)
    gone = tmp_path / "gone"
    gone.mkdir()
    listed = os.scandir

    def scandir(path: str) -> Iterator[os.DirEntry[str]]:
        if path == str(gone):
            gone.rmdir()
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    said = answer(capsys, str(tmp_path), code=2)
    errors = {each["file"]: each["error"] for each in said["files"]}
    assert errors == {str(tmp_path / "dmesg"): None, str(gone): "No such file or directory"}
