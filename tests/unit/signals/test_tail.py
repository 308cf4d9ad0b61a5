"""Every whole line once: the tail against files that grow, rotate, shrink, vanish and are half-written."""

import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from oncall.signals import line_marks
from oncall.signals import tail as tail_module
from oncall.signals.followed_file import MAX_LINE, READ_LIMIT
from oncall.signals.tail import HISTORY_AGE_S, HISTORY_BYTES, QUIET_S, UNLINKED_S, Chunk, Tail

JSONL = re.compile(r".*\.jsonl")


class Clock:
    """The wall clock, which can be put ahead."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def skip(self, seconds: float) -> float:
        self.ahead += seconds
        return self.now

    @property
    def now(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of a tail that looks for new files each time it is asked."""
    monkeypatch.setattr(tail_module, "RESCAN_S", 0.0)
    return Clock()


@pytest.fixture
def poll(tmp_path: Path, clock: Clock) -> Callable[[], list[bytes]]:
    """Looks once and returns the new lines of all files."""
    tail = Tail([str(tmp_path)], JSONL)
    return lambda: [line for chunk in tail.poll(clock.now) for line in chunk.lines]


def open_descriptors(folder: Path) -> int:
    return sum(str(folder) in os.path.realpath(link) for link in Path("/proc/self/fd").iterdir())


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_partial_last_line_waits_for_its_newline(tmp_path: Path, poll: Callable[[], list[bytes]]) -> None:
    path = tmp_path / "rank0.jsonl"
    append(path, '{"step": 1}\n{"st')
    assert poll() == [b'{"step": 1}']
    assert poll() == []
    append(path, 'ep": 2}')
    assert poll() == []
    append(path, "\n")
    assert poll() == [b'{"step": 2}']


def test_rotation_by_rename_loses_neither_end_nor_beginning(tmp_path: Path, poll: Callable[[], list[bytes]]) -> None:
    path = tmp_path / "rank0.jsonl"
    append(path, "1\n")
    assert poll() == [b"1"]
    writer = path.open("a")
    path.rename(tmp_path / "rank0.jsonl.1")
    writer.write("2\n")
    writer.close()
    append(path, "3\n")
    assert sorted(poll()) == [b"2", b"3"]


def test_rotated_file_keeps_the_name_that_tells_what_it_holds(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "rank0.jsonl"
    append(path, "1\n")
    tail = Tail([str(tmp_path)], JSONL)
    list(tail.poll(clock.now))
    path.rename(tmp_path / "rank0.jsonl.1")
    list(tail.poll(clock.now))
    append(tmp_path / "rank0.jsonl.1", "2\n")
    assert [(chunk.path, chunk.lines) for chunk in tail.poll(clock.now)] == [(str(path), [b"2"])]


def test_file_deleted_before_it_was_read_is_still_read(tmp_path: Path, poll: Callable[[], list[bytes]]) -> None:
    path = tmp_path / "rank0.jsonl"
    append(path, "1\n")
    assert poll() == [b"1"]
    append(path, "2\n")
    path.unlink()
    assert poll() == [b"2"]


def test_deleted_file_is_let_go(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "rank0.jsonl"
    append(path, "1\n")
    tail = Tail([str(tmp_path)], JSONL)
    list(tail.poll(clock.now))
    path.unlink()
    list(tail.poll(clock.skip(UNLINKED_S + 1)))
    assert tail.files == 0
    assert open_descriptors(tmp_path) == 0


@pytest.mark.parametrize("regrown", ["", "9\n", "9\n8\n", "9\n8\n7\n6\n5\n"])
def test_truncated_to_nothing_and_written_anew(tmp_path: Path, poll: Callable[[], list[bytes]], regrown: str) -> None:
    path = tmp_path / "rank0.jsonl"
    append(path, "1\n2\n")
    assert poll() == [b"1", b"2"]
    path.write_text(regrown)
    assert poll() == regrown.encode().split()


@pytest.mark.parametrize("kept", ["1\n", "1\n2\n", "1\ntorn", "1\n2\ntorn"])
@pytest.mark.parametrize("after", ["", "x\n", "\nx\ny\nz\n"])
def test_truncated_back_to_an_earlier_step(
    tmp_path: Path, poll: Callable[[], list[bytes]], kept: str, after: str
) -> None:
    path = tmp_path / "rank0.jsonl"
    append(path, "1\n2\n3\n")
    assert poll() == [b"1", b"2", b"3"]
    path.write_text(kept + after)
    survivors = kept.count("\n")
    assert poll() == (kept + after).encode().split(b"\n")[survivors:-1]


def test_truncated_further_back_than_each_line_is_remembered(
    tmp_path: Path, poll: Callable[[], list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the older half of what is remembered every second line is: at most one line is handed on again."""
    monkeypatch.setattr(line_marks, "_MARKS", 10)
    path = tmp_path / "rank0.jsonl"
    lines = [f"{number}\n" for number in range(20)]
    path.write_text("".join(lines))
    assert len(poll()) == 20
    path.write_text("".join(lines[:4]) + "new\n")
    assert poll() in ([b"new"], [b"3", b"new"])


def test_hole_before_the_record_of_a_writer_without_append(tmp_path: Path, poll: Callable[[], list[bytes]]) -> None:
    path = tmp_path / "rank0.jsonl"
    with path.open("w") as writer:
        writer.write('{"step": 1}\n')
        writer.flush()
        assert poll() == [b'{"step": 1}']
        os.truncate(path, 0)
        writer.write('{"step": 2}\n')
        writer.flush()
        assert poll() == [b'{"step": 2}']


def test_overlong_line_is_dropped_and_counted_once(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "rank0.jsonl"
    tail = Tail([str(tmp_path)], JSONL)
    seen: list[bytes] = []
    for text in ("1\n", "x" * (MAX_LINE + 5), "y" * READ_LIMIT, "z\n2\n", "w" * (MAX_LINE + 1) + "\n3\n"):
        append(path, text)
        for _ in range(3):
            seen += [line for chunk in tail.poll(clock.now) for line in chunk.lines]
    assert seen == [b"1", b"2", b"3"]
    assert tail.overlong_lines == 2


def test_long_backlog_is_read_in_pieces(tmp_path: Path, poll: Callable[[], list[bytes]]) -> None:
    assert poll() == []
    line = "x" * 1023
    count = 3 * READ_LIMIT // 1024
    (tmp_path / "rank0.jsonl").write_text(f"{line}\n" * count)
    assert sum(len(poll()) for _ in range(4)) == count


def test_file_replaced_in_a_folder_of_thousands(tmp_path: Path, poll: Callable[[], list[bytes]]) -> None:
    for number in range(1000):
        (tmp_path / f"old{number}.jsonl").touch()
    assert poll() == []
    append(tmp_path / "old123.jsonl", "late\n")
    append(tmp_path / "new.jsonl", "new\n")
    assert sorted(poll()) == [b"late", b"new"]


def test_folders_made_later_are_found(tmp_path: Path, poll: Callable[[], list[bytes]]) -> None:
    assert poll() == []
    deep = tmp_path / "run42" / "attempt_1"
    deep.mkdir(parents=True)
    append(deep / "rank0.jsonl", "1\n")
    assert poll() == [b"1"]


def test_links_are_not_followed(tmp_path: Path, poll: Callable[[], list[bytes]]) -> None:
    append(tmp_path / "rank0.jsonl", "1\n")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "latest.jsonl").symlink_to(tmp_path / "rank0.jsonl")
    assert poll() == [b"1"]


def test_quiet_file_is_closed_and_followed_on(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "rank0.jsonl"
    append(path, "1\n2\n")
    tail = Tail([str(tmp_path)], JSONL)

    def lines() -> list[bytes]:
        return [line for chunk in tail.poll(clock.now) for line in chunk.lines]

    assert lines() == [b"1", b"2"]
    clock.skip(QUIET_S + 1)
    assert lines() == []
    assert open_descriptors(tmp_path) == 0
    path.write_text("1\nback\n")
    assert lines() == [b"back"]


def test_what_stood_before_the_start_is_history_and_bounded(tmp_path: Path, clock: Clock) -> None:
    line = "x" * 99
    recent, old = tmp_path / "recent.jsonl", tmp_path / "old.jsonl"
    recent.write_text(f"{line}\n" * 10_000)
    old.write_text("yesterday\n")
    os.utime(old, (clock.now - HISTORY_AGE_S - 60, clock.now - HISTORY_AGE_S - 60))
    tail = Tail([str(tmp_path)], JSONL)
    chunks: list[Chunk] = list(tail.poll(clock.now))
    assert [Path(chunk.path).name for chunk in chunks] == ["recent.jsonl"]
    assert chunks[0].historical
    assert set(chunks[0].lines) == {line.encode()}
    assert HISTORY_BYTES // 100 <= len(chunks[0].lines) <= HISTORY_BYTES // 100 + 1
    append(recent, "live\n")
    append(old, "today\n")
    chunks = list(tail.poll(clock.now))
    assert {(tuple(chunk.lines), chunk.historical) for chunk in chunks} == {((b"live",), False), ((b"today",), False)}


def test_more_files_than_descriptors(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "MAX_OPEN", 4)
    tail = Tail([str(tmp_path)], JSONL)
    list(tail.poll(clock.now))
    seen: list[bytes] = []
    for round_ in range(3):
        for number in range(20):
            append(tmp_path / f"rank{number}.jsonl", f"{round_}/{number}\n")
        for _ in range(2):
            seen += [line for chunk in tail.poll(clock.now) for line in chunk.lines]
    assert sorted(seen) == sorted(f"{r}/{n}".encode() for r in range(3) for n in range(20))


def test_unreadable_folder_is_named_and_the_rest_goes_on(tmp_path: Path, clock: Clock) -> None:
    append(tmp_path / "rank0.jsonl", "1\n")
    missing = tmp_path / "nowhere"
    tail = Tail([str(missing), str(tmp_path)], JSONL)
    assert [chunk.lines for chunk in tail.poll(clock.now)] == [[b"1"]]
    assert tail.unreadable == {str(missing): "No such file or directory"}


class RandomWriter:
    """Appends, half-writes, rotates, cuts and deletes at random; knows every line that it ever completed.

    It cuts and deletes only what was read before, and renames a file out of sight only once it was seen, for what is
    gone before anybody looked cannot be counted.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.path = folder / "rank0.jsonl"
        self.written: list[bytes] = []
        self.in_file: list[str] = []
        self.open_line = ""
        self.serial = 0
        self.was_seen = False
        self.path.touch()

    def append(self) -> None:
        for _ in range(self.random.randint(1, 5)):
            self.serial += 1
            line = self.open_line + f"line {self.serial} " + "x" * self.random.randint(0, 200)
            append(self.path, line[len(self.open_line) :] + "\n")
            self.written.append(line.encode())
            self.in_file.append(line)
            self.open_line = ""

    def half_write(self) -> None:
        part = f"half {self.random.random()} "
        append(self.path, part)
        self.open_line += part

    def rotate(self) -> None:
        suffix = self.random.choice([".1.jsonl", ".gone"]) if self.was_seen else ".1.jsonl"
        self.path.rename(self.path.with_name(f"rotated{self.serial}-{len(self.written)}{suffix}"))
        self._fresh()

    def cut(self) -> None:
        keep = self.random.randint(0, len(self.in_file))
        self.in_file = self.in_file[:keep]
        part = self.random.choice(["", "torn"])
        whole = "".join(line + "\n" for line in self.in_file)
        os.truncate(self.path, len(whole))
        self.open_line = ""
        if part:
            append(self.path, part)
            self.open_line = part
        if self.random.random() < 0.7:
            self.append()

    def delete(self) -> None:
        self.path.unlink()
        self._fresh()

    def _fresh(self) -> None:
        self.in_file, self.open_line, self.was_seen = [], "", False
        self.path.touch()
        self.append()


@pytest.mark.parametrize("seed", range(20))
def test_random_writer_each_whole_line_once(tmp_path: Path, clock: Clock, seed: int) -> None:
    writer = RandomWriter(tmp_path, seed)
    tail = Tail([str(tmp_path)], JSONL)
    seen: list[bytes] = []

    def look() -> None:
        seen.extend(line for chunk in tail.poll(clock.now) for line in chunk.lines)
        writer.was_seen = True

    look()
    for _ in range(300):
        action = writer.random.choices(
            [writer.append, writer.half_write, writer.rotate, writer.cut, writer.delete, look],
            weights=[8, 4, 1, 2, 1, 8],
        )[0]
        if action in {writer.cut, writer.delete}:
            look()
        action()
    look()
    assert sorted(seen) == sorted(writer.written)
