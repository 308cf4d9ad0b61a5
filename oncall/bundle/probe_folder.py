"""One turn of one probe in a bundle, as it is written: who was asked, how each answered, and what came of it."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO
from urllib.parse import quote

import msgspec

from oncall.bundle.evidence import Evidence, NodeAnswer, Outcome
from oncall.errors import BundleError
from oncall.run.numbers import whole

_MOST_BYTES = 1024 * 1024 * 1024
"""Of one node's answer to one probe: eight ranks' recorders and stacks are a tenth of it."""


class AnswerFile:
    """The raw output of one node while it arrives: written to a temporary name, renamed when it is whole.

    `lost` is why what arrived is not kept, None where it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_suffix(".part")
        self._stream: IO[bytes] | None = None
        self._size = 0
        self.lost: str | None = None

    def write(self, data: bytes) -> None:
        """Append what arrived. Raises BundleError where a node says more than any probe asks for."""
        if self._size + len(data) > _MOST_BYTES:
            raise BundleError(f"it sent more than {_MOST_BYTES >> 20:,} MiB and was not heard to its end")
        if self._stream is None:
            self._stream = self._temporary.open("wb")
        self._stream.write(data)
        self._size += len(data)

    def close(self) -> Path | None:
        """Finish the file; returns its path, or None where nothing arrived or the disk took nothing."""
        if self._stream is None:
            return None
        try:
            self._stream.close()
            self._temporary.rename(self._path)
        except OSError as error:
            self.lost = error.strerror
            return None
        return self._path


class ProbeFolder:
    """Where one turn of one probe is kept."""

    def __init__(self, bundle: Path, probe: str, asked: tuple[str, ...]) -> None:
        self._bundle = bundle
        self.probe = probe
        self.asked = asked
        self.path = _next_folder(bundle / "evidence" / probe)
        self._answers: dict[str, NodeAnswer] = {}
        self._files: dict[str, AnswerFile] = {}
        with suppress(OSError):  # on a full disk each node's answer tells that it could not be kept
            self.path.mkdir(parents=True)
            write_whole(self.path / "asked.json", msgspec.json.encode(asked))

    def open_answer(self, host: str) -> AnswerFile:
        """A file for this node's raw output."""
        self._files[host] = AnswerFile(self.path / f"{quote(host, safe='')}.out")
        return self._files[host]

    def record(self, answer: NodeAnswer) -> None:
        """Note how a node answered; on disk when this returns. On a full disk it is no answer, and only this triage
        knows of it.
        """
        file = self._files.pop(answer.host, None)
        if file is not None and file.lost is not None:
            answer = _not_kept(answer, file.lost)
        try:
            append_line(self.path / "index.jsonl", msgspec.json.encode(answer))
        except OSError as error:
            answer = _not_kept(answer, error.strerror)
        self._answers[answer.host] = answer

    def relative(self, path: Path | None) -> str | None:
        """A path as it is kept in the index."""
        return None if path is None else str(path.relative_to(self._bundle))

    def evidence(self) -> Evidence:
        """What has arrived so far."""
        return Evidence(self.probe, self._bundle, self.asked, dict(self._answers))


def _not_kept(answer: NodeAnswer, why: str | None) -> NodeAnswer:
    reason = f"the bundle cannot be written: {why}"
    return msgspec.structs.replace(answer, outcome=Outcome.FAILED, reason=reason)


def _next_folder(parent: Path) -> Path:
    return parent / str(max(turns(parent), default=0) + 1)


def turns(parent: Path) -> dict[int, Path]:
    """The folders of a probe's turns by their numbers."""
    return {number: folder for folder in parent.glob("*") if (number := whole(folder.name)) is not None}


def read_kept(path: Path) -> bytes:
    """A file of a bundle. Raises OSError also for what is none, as a pipe, which never ends, and for what is too large:
    a bundle may come from anybody.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EINVAL, "is no file", str(path))
    if status.st_size > _MOST_BYTES:
        raise OSError(errno.EFBIG, f"is larger than {_MOST_BYTES >> 20:,} MiB", str(path))
    return path.read_bytes()


def read_answers(path: Path) -> list[NodeAnswer]:
    """Every whole line; a last line that was cut by a crash is passed over."""
    try:
        lines = read_kept(path).splitlines()
    except FileNotFoundError:
        return []
    answers = []
    for line in lines:
        try:
            answers.append(msgspec.json.decode(line, type=NodeAnswer))
        except msgspec.DecodeError:
            continue
    return answers


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def append_line(path: Path, line: bytes) -> None:
    """Add one line to a file."""
    with path.open("ab") as stream:
        stream.write(line + b"\n")
