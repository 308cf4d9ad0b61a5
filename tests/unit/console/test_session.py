"""The process in which the console's triage is walked: what it tells, and how either side survives the other's end."""

import os
import queue
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import msgspec
import pytest

from oncall.bundle.store import AUTOMATIC, Bundle
from oncall.console.bundles import fresh_bundle
from oncall.console.orders import ChoosePlaybook, FindEarlier, Guide, Note
from oncall.console.session import Session
from oncall.console.snapshot import Snapshot, Start
from oncall.console.told import Told
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


def children() -> set[int]:
    listings = Path("/proc/self/task").glob("*/children")
    return {int(child) for listing in listings for child in listing.read_text().split()}


@pytest.fixture
def born() -> Callable[[], list[int]]:
    """The processes started since: other tests in this process may have left theirs, as multiprocessing does."""
    before = children()
    return lambda: sorted(children() - before)


def test_an_order_given_before_the_walk_begins_is_carried_out(
    session: Session, told: "queue.SimpleQueue[Told]", bundle: Bundle
) -> None:
    session.give(Note("paged the network team"))
    session.start()
    until(told, lambda snapshot: any(line.text == "paged the network team" for line in snapshot.journal))
    assert [event.text for event in read_journal(bundle) if isinstance(event, Noted)] == ["paged the network team"]


def test_a_walk_that_is_killed_is_told_and_keeps_what_was_known(
    session: Session, told: "queue.SimpleQueue[Told]", born: Callable[[], list[int]]
) -> None:
    session.start()
    known = until(told, lambda snapshot: snapshot.report)
    (walk,) = born()
    os.kill(walk, signal.SIGKILL)
    ended = until(told, lambda snapshot: snapshot.problem)
    assert ended.problem is not None
    assert "-9" in ended.problem
    assert ended.report == known.report


def test_leaving_ends_the_process_and_tells_nothing_more(
    session: Session, told: "queue.SimpleQueue[Told]", born: Callable[[], list[int]]
) -> None:
    session.start()
    until(told, lambda snapshot: snapshot.report)
    session.stop()
    assert born() == []
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
    assert "run.toml" in console.recv()
    assert process.wait(_PATIENCE_S) == 0


def test_why_a_walk_could_not_begin_is_told_last(
    session: Session, told: "queue.SimpleQueue[Told]", bundle: Bundle
) -> None:
    """The end of the process, which follows, does not hide the reason."""
    bundle.write("run.toml", b"nodes = [")
    session.start()
    until(told, lambda snapshot: snapshot.problem)
    session._thread.join(_PATIENCE_S)
    assert told.empty()


def test_an_interpreter_that_is_gone_is_told(
    session: Session, told: "queue.SimpleQueue[Told]", monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    session.start()
    problem = until(told, lambda snapshot: snapshot.problem).problem
    assert problem is not None
    assert "cannot be started" in problem
    assert str(tmp_path / "python") in problem


def test_what_the_interpreter_says_of_its_end_is_told(
    session: Session, told: "queue.SimpleQueue[Told]", monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As of an environment that cannot be read any more."""
    (tmp_path / "msgspec.py").write_text("raise PermissionError('lib is not readable')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    session.start()
    problem = until(told, lambda snapshot: snapshot.problem).problem
    assert problem == "the walk's process ended early, exit code 1: PermissionError: lib is not readable"


def test_leaving_a_process_that_cannot_be_ended_comes_to_an_end(
    session: Session, told: "queue.SimpleQueue[Told]", born: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that waits for a mount that is gone stays even when it is killed; a stopped one here stands for it."""
    session.start()
    until(told, lambda snapshot: snapshot.playbook)
    (walk,) = born()
    os.kill(walk, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "kill", lambda _: None)
        session.stop()
    assert born() == [walk]


def test_a_playbook_with_mistakes_leaves_the_walk_as_it_was(
    session: Session, told: "queue.SimpleQueue[Told]", tmp_path: Path
) -> None:
    (tmp_path / "site.yaml").write_text("playbook: [")
    session.start()
    known = until(told, lambda snapshot: snapshot.report)
    session.give(ChoosePlaybook(str(tmp_path / "site.yaml")))
    after = until(told, lambda snapshot: snapshot.mishap)
    assert after.mishap is not None
    assert "site.yaml:1" in after.mishap
    assert after.report == known.report
    session.give(ChoosePlaybook("slowdown"))
    assert until(told, lambda snapshot: snapshot.report and not snapshot.mishap).report != known.report


def test_going_step_by_step_walks_the_same_file_anew(
    session: Session, told: "queue.SimpleQueue[Told]", tmp_path: Path
) -> None:
    """A site's playbook may bear the name of the shipped one that it extends."""
    site = tmp_path / "hang.yaml"
    site.write_text("extends: hang\nplaybook: hang\nstart: restarting\n")
    session.start()
    until(told, lambda snapshot: snapshot.report)
    session.give(ChoosePlaybook(str(site)))
    session.give(Guide(on=True))
    guided = until(told, lambda snapshot: snapshot.guided and snapshot.proposal)
    assert guided.here == "restarting"


def test_an_earlier_triage_that_cannot_be_read_is_told(
    session: Session, told: "queue.SimpleQueue[Told]", bundle: Bundle
) -> None:
    earlier = bundle.path.with_name("earlier")
    shutil.copytree(bundle.path, earlier)
    manifest = msgspec.structs.replace(bundle.manifest, started=bundle.manifest.started - timedelta(hours=1))
    Bundle.open(earlier).write("manifest.json", msgspec.json.encode(manifest))
    (earlier / "run.toml").write_text("nodes = [")
    session.start()
    until(told, lambda snapshot: snapshot.report)
    session.give(FindEarlier())
    mishap = until(told, lambda snapshot: snapshot.mishap).mishap
    assert mishap is not None
    assert str(earlier / "run.toml") in mishap


def test_a_new_triage_chooses_its_playbook_anew(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    bundle.choose("slowdown")
    fresh = fresh_bundle(bundle)
    assert fresh.manifest.playbook == AUTOMATIC
    assert fresh.read_text("run.toml") == bundle.read_text("run.toml")
