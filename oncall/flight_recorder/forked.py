"""Loads shares of a set of dumps at once, each but the first in a forked process of its own."""

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, NoReturn

from oncall.errors import OncallError
from oncall.flight_recorder.parcel import Row, pack, unpack

Task = Callable[[], list[Row]]


def at_once(tasks: Sequence[Task]) -> list[Row]:
    """What the tasks loaded, in their order; an exception of a task is raised here.

    A forked process starts in a millisecond. A process that has threads is not forked, as their locks would stay taken
    in the copy: then all is done here, one after the other. Raises OncallError when a process is ended from outside.
    """
    if threading.active_count() > 1:
        return [row for task in tasks for row in task()]
    with ExitStack() as stack:
        answers = [stack.enter_context(_forked(task)) for task in tasks[1:]]
        return tasks[0]() + [row for answer in answers for row in _rows(answer)]


@contextmanager
def _forked(task: Task) -> Iterator[IO[bytes]]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(task, writing)
    os.close(writing)
    try:
        with open(reading, "rb") as answer:
            yield answer
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _work(task: Task, writing: int) -> NoReturn:
    """Write a parcel or an exception; the copy ends without finishing what it inherited, buffers and exit handlers."""
    try:
        with open(writing, "wb") as answer:
            try:
                outcome: object = pack(task())
            except Exception as error:  # of whatever kind: it belongs to the process that asked
                outcome = error
            pickle.dump(outcome, answer, pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)


def _rows(answer: IO[bytes]) -> Iterator[Row]:
    try:
        outcome = pickle.load(answer)  # noqa: S301  # from a copy of this process
    except (EOFError, pickle.UnpicklingError):
        raise OncallError(
            "a process that loaded dumps was ended before it answered",
            "if memory is short, load them in one process: --processes 1",
        ) from None
    if isinstance(outcome, Exception):
        raise outcome
    return unpack(outcome)
