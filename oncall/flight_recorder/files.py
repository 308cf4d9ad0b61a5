"""Finds the files of a set of dumps and reads each within bounds of size and time."""

import os
import select
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from oncall.flight_recorder.model import Refused
from oncall.flight_recorder.reduce import MAX_FILE_BYTES

_PIPE_WAIT_S = 10.0
"""For the next bytes out of a pipe, such as a shell gives for `<(ssh node cat dump)`."""
_BLOCK_BYTES = 1 << 20

Named = tuple[str, Path]
"""A file with its name as reports give it: the folder, which may be the host, and its own."""


def files_under(path: Path) -> tuple[list[Named], list[Refused]]:
    """The file itself, or all files of a folder at any depth, and the folders that may not be listed."""
    if not path.is_dir():
        return [(f"{path.absolute().parent.name}/{path.name}", path)], []
    closed: list[Refused] = []

    def note(error: OSError) -> None:
        closed.append(Refused(str(error.filename or path), f"cannot be listed: {error.strerror}", None))

    found = [Path(folder, name) for folder, _, names in os.walk(path, onerror=note) for name in names]
    return [(str(file.relative_to(path)), file) for file in sorted(found) if file.is_file()], closed


def read(name: str, file: Path) -> bytes | Refused:
    """The content of a file or of what comes out of a pipe; where there is none to be had, why."""
    try:
        number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Refused(name, f"cannot be read: {error.strerror}", None)
    try:
        return _content(name, number)
    except OSError as error:
        return Refused(name, f"cannot be read: {error.strerror}", None)
    finally:
        os.close(number)


def _content(name: str, number: int) -> bytes | Refused:
    status = os.fstat(number)
    if stat.S_ISREG(status.st_mode):
        if status.st_size > MAX_FILE_BYTES:
            return Refused(name, "larger than any dump", None)
        with open(number, "rb", closefd=False) as stream:
            return stream.read(status.st_size + 1)
    if not stat.S_ISFIFO(status.st_mode):
        return Refused(name, "neither a file nor a pipe", None)
    blocks, left = [], MAX_FILE_BYTES
    for block in _blocks(number):
        if block is None:
            return Refused(name, f"a pipe into which nobody wrote for {_PIPE_WAIT_S:g} s", None)
        blocks.append(block)
        left -= len(block)
        if left < 0:
            return Refused(name, "larger than any dump", None)
    return b"".join(blocks)


def _blocks(number: int) -> Iterator[bytes | None]:
    """What is written into a pipe until it is closed; None where nothing came in time."""
    until = time.monotonic() + _PIPE_WAIT_S
    while True:
        readable, _, _ = select.select([number], [], [], max(0.0, until - time.monotonic()))
        if not readable:
            yield None
            return
        block = os.read(number, _BLOCK_BYTES)
        if not block:
            return
        yield block
        until = time.monotonic() + _PIPE_WAIT_S
