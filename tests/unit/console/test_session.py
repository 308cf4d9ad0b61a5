"""The process in which the console's triage is walked: what it tells, and how either side survives the other's end."""

import os
import queue
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import pytest

from oncall.bundle.store import AUTOMATIC, Bundle
from oncall.console.bundles import fresh_bundle
from oncall.console.orders import Note
from oncall.console.session import Session, Told
from oncall.console.snapshot import Snapshot, Start
from oncall.playbook.events import Noted
from oncall.playbook.journal import read_journal
from oncall.rehearse.incidents import incidents

_PATIENCE_S = 60.0


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    folder = tmp_path / "bundle"
    shutil.copytree(incidents()["hang-by-code"].bundle.path, folder)
    return Bundle.open(folder)


def first(bundle: Bundle, *, guided: bool = False) -> Snapshot:
    start = Start(bundle.manifest.run, bundle.manifest.started, str(bundle.path), live=False, read_only=False)
    return Snapshot(start, guided=guided)


@pytest.fixture
def told() -> "queue.SimpleQueue[Told]":
    return queue.SimpleQueue()


@pytest.fixture
def session(bundle: Bundle, told: "queue.SimpleQueue[Told]") -> Iterator[Session]:
    session = Session(bundle, first(bundle), told.put)
    yield session
    session.stop()


def until(told: "queue.SimpleQueue[Told]", holds: Callable[[Snapshot], object]) -> Snapshot:
    """The first snapshot of which something holds."""
    while True:
        snapshot = told.get(timeout=_PATIENCE_S)
        if isinstance(snapshot, Snapshot) and holds(snapshot):
            return snapshot


def children() -> list[int]:
    listings = Path("/proc/self/task").glob("*/children")
    return [int(child) for listing in listings for child in listing.read_text().split()]


def test_an_order_given_before_the_walk_begins_is_carried_out(
    session: Session, told: "queue.SimpleQueue[Told]", bundle: Bundle
) -> None:
    session.give(Note("paged the network team"))
    session.start()
    until(told, lambda snapshot: any(line.text == "paged the network team" for line in snapshot.journal))
    assert [event.text for event in read_journal(bundle) if isinstance(event, Noted)] == ["paged the network team"]


def test_a_walk_that_is_killed_is_told_and_keeps_what_was_known(
    session: Session, told: "queue.SimpleQueue[Told]"
) -> None:
    session.start()
    known = until(told, lambda snapshot: snapshot.report)
    (walk,) = children()
    os.kill(walk, signal.SIGKILL)
    ended = until(told, lambda snapshot: snapshot.problem)
    assert ended.problem is not None
    assert "-9" in ended.problem
    assert ended.report == known.report


def test_leaving_ends_the_process_and_tells_nothing_more(session: Session, told: "queue.SimpleQueue[Told]") -> None:
    session.start()
    until(told, lambda snapshot: snapshot.report)
    session.stop()
    assert children() == []
    while not told.empty():
        last = told.get()
        assert isinstance(last, Snapshot)
        assert last.problem is None


def test_a_session_that_never_began_can_be_left(session: Session) -> None:
    session.stop()


@pytest.fixture
def walking() -> Iterator[tuple[Connection, "subprocess.Popen[bytes]"]]:
    """The process of a walk with the console's end of its pipe."""
    ours, theirs = Pipe()
    number = theirs.fileno()
    command = [sys.executable, "-P", "-m", "oncall.console.walking", str(number)]
    with ours, subprocess.Popen(command, pass_fds=(number,), stderr=subprocess.PIPE) as process:
        theirs.close()
        yield ours, process
        process.kill()


def test_the_walk_ends_when_the_console_was_killed(
    walking: tuple[Connection, "subprocess.Popen[bytes]"], bundle: Bundle
) -> None:
    console, process = walking
    console.send((bundle.path, first(bundle, guided=True), None))
    while console.recv().proposal is None:
        pass
    console.close()
    assert process.wait(_PATIENCE_S) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_a_run_file_that_cannot_be_read_is_told(
    walking: tuple[Connection, "subprocess.Popen[bytes]"], bundle: Bundle
) -> None:
    console, process = walking
    bundle.write("run.toml", b"nodes = [")
    console.send((bundle.path, first(bundle), None))
    assert "run.toml" in console.recv().problem
    assert process.wait(_PATIENCE_S) == 0


def test_a_new_triage_chooses_its_playbook_anew(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    bundle.choose("slowdown")
    fresh = fresh_bundle(bundle)
    assert fresh.manifest.playbook == AUTOMATIC
    assert fresh.read_text("run.toml") == bundle.read_text("run.toml")
