"""Shares of a set are loaded in processes that may fail or be ended, and the answer says so."""

import os
import signal
import threading

import pytest

from oncall.errors import OncallError
from oncall.flight_recorder.forked import at_once
from oncall.flight_recorder.model import Refused
from oncall.flight_recorder.parcel import Row


def where() -> list[Row]:
    """A row that names the process it was made in."""
    return [Refused(str(os.getpid()), "", None)]


def sources(rows: list[Row]) -> list[str]:
    return [row.source for row in rows]


def ended() -> list[Row]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def failed() -> list[Row]:
    raise ValueError("in the middle")


def test_each_task_but_the_first_has_a_process_of_its_own() -> None:
    here, *others = sources(at_once([where, where, where]))
    assert here == str(os.getpid())
    assert len({here, *others}) == 3


def test_a_process_with_threads_is_not_forked() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert sources(at_once([where, where])) == [str(os.getpid())] * 2
    finally:
        done.set()
        thread.join()


def test_a_process_that_is_ended_is_an_error_with_a_way_out() -> None:
    with pytest.raises(OncallError, match="ended before it answered") as caught:
        at_once([where, ended])
    assert "--processes 1" in str(caught.value.hint)


def test_what_fails_in_a_process_is_raised_here_and_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    fork, children = os.fork, []

    def watched() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", watched)
    with pytest.raises(ValueError, match="in the middle"):
        at_once([where, failed, where])
    assert len(children) == 2
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
