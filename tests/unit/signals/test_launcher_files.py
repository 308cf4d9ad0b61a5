"""Restarts from torchrun's folders, and whether anybody still writes the run's files."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncall.signals.folder_watch import FolderSeen
from oncall.signals.torchrun_dirs import Attempts
from oncall.signals.writers import SEARCH_S, Writers


def folders(root: Path) -> list[FolderSeen]:
    seen = [path for path in root.rglob("*") if path.is_dir()]
    return [FolderSeen(str(path), path.stat().st_ino, path.stat().st_mtime) for path in seen]


def make_attempt(launch: Path, number: int) -> Path:
    """As torchrun does: an attempt's folder is deleted if it is there, then made with its ranks'."""
    attempt = launch / f"attempt_{number}"
    shutil.rmtree(attempt, ignore_errors=True)
    for local_rank in range(2):
        (attempt / str(local_rank)).mkdir(parents=True)
    return attempt


def test_no_attempt_is_not_zero_restarts(tmp_path: Path) -> None:
    attempts = Attempts()
    attempts.take(folders(tmp_path))
    assert (attempts.restarts, attempts.newest_start) == (None, None)


def test_each_further_attempt_is_a_restart(tmp_path: Path) -> None:
    attempts = Attempts()
    launch = tmp_path / "run42_x1"
    told = []
    for number in range(3):
        newest = make_attempt(launch, number)
        attempts.take(folders(tmp_path))
        told.append(attempts.restarts)
    assert told == [0, 1, 2]
    assert attempts.newest_start == newest.stat().st_mtime


def test_changed_membership_makes_the_same_attempt_again(tmp_path: Path) -> None:
    """Whether the file system gives the folder another inode or the same one."""
    attempts = Attempts()
    for seconds in (0, 60, 120):
        attempt = make_attempt(tmp_path / "run42_x1", 0)
        modified = attempt.stat().st_mtime + seconds
        os.utime(attempt, (modified, modified))
        attempts.take(folders(tmp_path))
    assert (attempts.restarts, attempts.newest_start) == (2, pytest.approx(modified))


def test_folder_that_is_still_being_filled_is_one_attempt(tmp_path: Path) -> None:
    attempts = Attempts()
    attempt = make_attempt(tmp_path / "run42_x1", 0)
    for seconds in range(5):
        os.utime(attempt, (0, 1_796_000_000 + seconds))
        attempts.take(folders(tmp_path))
    assert attempts.restarts == 0


def test_a_new_launch_is_a_restart_and_deleted_logs_change_nothing(tmp_path: Path) -> None:
    attempts = Attempts()
    old = make_attempt(tmp_path / "run42_x1", 0)
    new = make_attempt(tmp_path / "run42_x2", 0)
    os.utime(new, (old.stat().st_mtime - 10, old.stat().st_mtime + 10))
    attempts.take(folders(tmp_path))
    started = attempts.newest_start
    shutil.rmtree(old / "0")
    os.utime(old, (0, new.stat().st_mtime + 500))
    attempts.take(folders(tmp_path))
    shutil.rmtree(tmp_path / "run42_x1")
    attempts.take(folders(tmp_path))
    assert (attempts.restarts, attempts.newest_start) == (1, started)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "rank0.jsonl"


@pytest.fixture
def trainer(log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that holds the log open for appending until its input ends."""
    code = "import sys; f = open(sys.argv[1], 'a'); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_writer_lives_and_dies(log: Path, trainer: "subprocess.Popen[bytes]") -> None:
    writers = Writers()
    assert writers.count(lambda: [str(log)], 100.0) == 1
    trainer.kill()
    trainer.wait()
    assert writers.count(lambda: [str(log)], 101.0) == 0


def test_reader_is_no_writer(log: Path) -> None:
    log.touch()
    with log.open("rb"):
        assert Writers().count(lambda: [str(log)], 100.0) is None


def test_never_seen_is_not_zero(log: Path) -> None:
    log.touch()
    writers = Writers()
    assert writers.count(lambda: [str(log)], 100.0) is None
    assert writers.count(lambda: [str(log)], 100.0 + 2 * SEARCH_S) is None


def test_new_writer_is_found_with_the_next_search(log: Path) -> None:
    writers = Writers()
    log.touch()
    assert writers.count(lambda: [str(log)], 100.0) is None
    with log.open("a"):
        assert writers.count(lambda: [str(log)], 100.0 + SEARCH_S / 2) is None
        assert writers.count(lambda: [str(log)], 100.0 + SEARCH_S) == 1


def test_processes_that_cannot_be_looked_at_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "self").mkdir()
    descriptors = tmp_path / "2" / "fd"
    descriptors.mkdir(parents=True)
    (descriptors / "3").symlink_to("/logs/rank0.jsonl")
    assert Writers(str(tmp_path)).count(lambda: ["/logs/rank0.jsonl"], 100.0) is None
