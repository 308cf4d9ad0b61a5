"""Dumps of real jobs (PyTorch 2.13, gloo, two ranks, py-spy 0.4.3), each stopped in a known place.

The name of a file says what the process was made to do; the expected answer comes from that, not from the dump.
"""

from pathlib import Path

import pytest

from oncall.formats.pyspy import parse_pyspy, read_pyspy
from oncall.formats.standing import is_loader_worker, standing

DATA = Path(__file__).resolve().parents[2] / "data" / "pyspy"

STOPPED_IN = {
    "all_reduce.txt": ("collective_wait", "all_reduce"),
    "all_reduce.json": ("collective_wait", "all_reduce"),
    "all_reduce.native.txt": ("collective_wait", "all_reduce"),
    "all_gather_object.txt": ("collective_wait", "all_gather"),
    "recv.txt": ("collective_wait", "recv"),
    "barrier.txt": ("barrier", "barrier"),
    "ddp-start.txt": ("collective_wait", None),
    "ddp-backward.txt": ("collective_wait", None),
    "ddp-backward.native.txt": ("collective_wait", None),
    "work-wait.native.txt": ("collective_wait", None),
    "init.txt": ("store_wait", None),
    "loader-inline.txt": ("dataloader_wait", None),
    "loader-workers.txt": ("dataloader_wait", None),
    "loader-subprocesses.txt": ("dataloader_wait", None),
    "event.txt": ("lock_wait", None),
    "queue.txt": ("lock_wait", None),
    "lock.native.txt": ("lock_wait", None),
    "asleep.txt": ("blocked_call", None),
    "asleep.native.txt": ("sleep", None),
    "matmul.native.txt": ("native_compute", None),
    "python.txt": ("python_compute", None),
}


@pytest.mark.parametrize(("name", "told"), STOPPED_IN.items())
def test_where_it_stands(name: str, told: tuple[str, str | None]) -> None:
    answer = parse_pyspy((DATA / name).read_bytes())
    found = standing(answer.dumps[0])
    assert answer.unrecognised == ()
    assert (found.where, found.collective) == told


def test_blamed_frame_is_the_job_s_own() -> None:
    asleep = standing(parse_pyspy((DATA / "asleep.txt").read_bytes()).dumps[0])
    assert asleep.user_frame is not None
    assert asleep.user_frame.func == "train"
    assert not asleep.certain
    waits = standing(parse_pyspy((DATA / "all_reduce.txt").read_bytes()).dumps[0])
    assert waits.user_frame is not None
    assert waits.user_frame.file == "train.py"


def test_inline_loader_shows_the_data_set() -> None:
    found = standing(parse_pyspy((DATA / "loader-inline.txt").read_bytes()).dumps[0])
    assert str(found.blocking_frame).startswith("DS.__getitem__ (train.py:")


def test_loader_workers_are_told_from_ranks() -> None:
    name = "loader-subprocesses.txt"
    dumps = parse_pyspy((DATA / name).read_bytes()).dumps
    assert [is_loader_worker(dump) for dump in dumps] == [False, True, True]
    assert {dump.parent_pid for dump in dumps[1:]} == {dumps[0].pid}
    summary = read_pyspy((DATA / name).read_bytes(), name).summary
    assert summary is not None
    assert str(summary["cause"]).count("DS.__getitem__") == 2


def test_cut_dump_keeps_what_came() -> None:
    text = (DATA / "all_reduce.txt").read_bytes()
    cut = text[: text.index(b"    train (")]
    assert standing(parse_pyspy(cut).dumps[0]).where == "collective_wait"
    assert parse_pyspy((DATA / "all_reduce.json").read_bytes()[:-40]).unrecognised == (1,)


def test_foreign_lines_are_counted() -> None:
    answer = parse_pyspy(b"motd: welcome\nProcess 5: python x.py\nPython v3.11.9 (/x)\n\nwhat is this\n")
    assert [dump.pid for dump in answer.dumps] == [5]
    assert answer.unrecognised == (1, 5)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'[{"pid": "x"}]', b"{}", b"\xff\xfe[", b"[1, 2]"])
def test_hostile_json_is_unrecognised(data: bytes) -> None:
    answer = parse_pyspy(data)
    assert answer.dumps == ()
    assert answer.unrecognised
