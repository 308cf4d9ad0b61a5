"""One append-only file that somebody else writes: hands on each whole line once, whatever happens to the file."""

import os

from oncall.signals.line_marks import LineMarks

MAX_LINE = 1 << 20
"""A longer line is dropped and counted as bad: a record of one step has under 4 KiB."""

READ_LIMIT = 4 << 20
"""Bytes read from one file at a time, so that a large file does not keep the others waiting."""

_ANCHOR = 4096
"""Bytes before the reading place that must still be the same: several records, as records often end alike."""


class FollowedFile:
    """A file with the place up to which its lines were handed on.

    A line counts when its newline is there. A file that shrank or was rewritten is compared with what was read
    before: lines that still stand in the same place were handed on already, all others are new. What was written and
    cut off again between two reads was never seen.

    `path` is where the file stands now, `origin` where it was found first, `key` its device and inode.
    `taken` counts the bytes that were read past, `overlong` the lines dropped for their length.

    While open, the file is known by its descriptor, so that a rotation loses nothing; released, by device and inode.
    """

    def __init__(self, path: str, start: int) -> None:
        """Open `path` to read on from the line that holds byte `start`. Raises OSError.

        Where that line began more than 4 KiB earlier, its rest is dropped.
        """
        self._fd: int | None = _open(path)
        status = os.fstat(self._fd)
        self.origin = self.path = path
        self.key = (status.st_dev, status.st_ino)
        self.taken = 0
        self.overlong = 0
        at_end = start == status.st_size
        self._seen = (status.st_size, status.st_mtime_ns) if at_end else None
        self._dropping = False
        self.offset = self._line_start(self._fd, start) if start else 0
        self._marks = LineMarks(self.offset)
        self._anchor = _anchor(self._fd, self.offset)

    def _line_start(self, fd: int, start: int) -> int:
        before = os.pread(fd, min(_ANCHOR, start), max(0, start - _ANCHOR))
        newline = before.rfind(b"\n")
        if newline < 0:
            self._dropping = start > len(before)
            return start if self._dropping else 0
        return start - len(before) + newline + 1

    def release(self) -> None:
        """Let go of the descriptor; `reopen` goes on where this left off."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def reopen(self) -> bool:
        """Open the file again at its last known path; False when another file stands there. Raises OSError."""
        fd = _open(self.path)
        status = os.fstat(fd)
        if (status.st_dev, status.st_ino) != self.key:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def has_changed(self) -> bool:
        """Whether the file at the last known path is not as it was when last read. Raises OSError."""
        status = os.stat(self.path, follow_symlinks=False)
        return (status.st_size, status.st_mtime_ns) != self._seen

    def has_moved(self) -> bool:
        """Whether another file, or none, stands at the last known path."""
        try:
            status = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != self.key

    def modified(self) -> float | None:
        """When the open file was last written to, in unix seconds; None while released."""
        return None if self._fd is None else os.fstat(self._fd).st_mtime

    def is_unlinked(self) -> bool:
        """Whether no folder names the open file any more."""
        return self._fd is not None and os.fstat(self._fd).st_nlink == 0

    def unread(self) -> int:
        """Bytes that stand in the open file beyond the last whole line handed on."""
        return 0 if self._fd is None else max(0, os.fstat(self._fd).st_size - self.offset)

    def read(self) -> list[bytes]:
        """The whole lines since the last call, without newlines; at most READ_LIMIT bytes of them. Raises OSError."""
        if self._fd is None:
            return []
        status = os.fstat(self._fd)
        now = (status.st_size, status.st_mtime_ns)
        if now == self._seen:
            return []
        known = len(self._anchor)
        data = os.pread(self._fd, known + READ_LIMIT, self.offset - known)
        if status.st_size < self.offset or not data.startswith(self._anchor):
            self._find_place(self._fd, status.st_size)
            data = os.pread(self._fd, READ_LIMIT, self.offset)
        else:
            data = data[known:]
        # A read that stopped at the limit leaves the rest for the next call, however quiet the file stays.
        self._seen = now if len(data) < READ_LIMIT else None
        return self._take(data)

    def _find_place(self, fd: int, size: int) -> None:
        place = self._marks.common_prefix(fd, size)
        if place is None:
            self._marks = LineMarks(0)
        self.offset = place or 0
        self._dropping = False
        self._anchor = _anchor(fd, self.offset)

    def _take(self, data: bytes) -> list[bytes]:
        if data.startswith(b"\0"):
            # A writer without O_APPEND goes on at its old offset after a truncation and leaves a hole before it.
            record = data.lstrip(b"\0")
            self._skip(data[: len(data) - len(record)])
            data = record
        end = data.rfind(b"\n") + 1
        if end == 0:
            if self._dropping or len(data) >= MAX_LINE:
                self.overlong += not self._dropping
                self._dropping = True
                self._skip(data)
            return []
        return self._hand_on(data[:end])

    def _hand_on(self, whole: bytes) -> list[bytes]:
        lines = whole.split(b"\n")[:-1]
        position = self.offset
        for line in lines:
            position += len(line) + 1
            self._marks.add(line + b"\n", position)
        self._advance(whole)
        kept = lines[1:] if self._dropping else lines
        self._dropping = False
        short = [line for line in kept if len(line) <= MAX_LINE]
        self.overlong += len(kept) - len(short)
        return short

    def _skip(self, data: bytes) -> None:
        self._marks.skip(data)
        self._advance(data)

    def _advance(self, data: bytes) -> None:
        self._anchor = (self._anchor + data[-_ANCHOR:])[-_ANCHOR:]
        self.offset += len(data)
        self.taken += len(data)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def _anchor(fd: int, offset: int) -> bytes:
    return os.pread(fd, min(_ANCHOR, offset), max(0, offset - _ANCHOR))
