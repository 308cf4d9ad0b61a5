"""Follows every file of a run on this node: new ones, rotated ones, and those that went quiet."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from oncall.signals.folder_watch import FolderSeen, FolderWatch
from oncall.signals.followed_file import FollowedFile

RESCAN_S = 5.0
"""Between two looks for new files and for writes to quiet ones; a rotated file starts one at once."""

QUIET_S = 600.0
"""A file without a write for this long is closed and looked at only with each rescan."""

UNLINKED_S = 30.0
"""A deleted file is held open this long after its last write, and its disk space with it."""

MAX_OPEN = 256
"""Descriptors held. Files beyond are opened for each look, and a rotation between two looks may cost them lines."""

HISTORY_BYTES = 256 * 1024
HISTORY_AGE_S = 3600.0
"""At the start, the MAX_OPEN newest files written to within this time of the newest are read from HISTORY_BYTES before
their end: enough for the last 20 steps of a rank with 14 spans each. All others are read from their end."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole lines of one file, in order.

    `path` is where the file was found first and `key` its device and inode: a rotation changes neither. `written` is
    its modification time in unix seconds, `size` the bytes that the reader went on by. `historical`: the lines stood
    there before the start.
    """

    path: str
    key: tuple[int, int]
    written: float
    size: int
    lines: list[bytes]
    historical: bool


@dataclass(slots=True)
class _Entry:
    """A file, the bytes of it that are history, and when it last grew."""

    file: FollowedFile
    history: int
    grew: float
    found: bool = True
    moved: bool = False


class Tail:
    """All files under `roots` whose names match `names`, each whole line handed on once."""

    def __init__(self, roots: Sequence[str], names: re.Pattern[str]) -> None:
        self._watch = FolderWatch([os.path.realpath(root) for root in roots], names)
        self._open: dict[tuple[int, int], _Entry] = {}
        self._quiet: dict[tuple[int, int], _Entry] = {}
        self._scanned: float | None = None
        self._rotated = False
        self.overlong_lines = 0
        self.unreadable: dict[str, str] = {}

    @property
    def files(self) -> int:
        """Files known, quiet ones included."""
        return len(self._open) + len(self._quiet)

    def unread_bytes(self) -> int:
        """Bytes of open files that were not handed on: backlog, and last lines without their newline."""
        return sum(entry.file.unread() for entry in self._open.values())

    def folders(self) -> Iterator[FolderSeen]:
        """The folders under the roots, as of the last look for new files."""
        return self._watch.folders()

    def paths(self) -> set[str]:
        """The files known, quiet ones included."""
        return {entry.file.path for entry in chain(self._open.values(), self._quiet.values())}

    def poll(self, now: float) -> Iterator[Chunk]:
        """What was written since the last call; `now` is the wall clock in unix seconds.

        What cannot be read is in `unreadable` afterwards, path → reason, until a later look succeeds.
        """
        if self._scanned is None or self._rotated or not 0 <= now - self._scanned < RESCAN_S:
            self._rescan(now)
            self._scanned, self._rotated = now, False
            yield from self._read_woken(now)
        for key, entry in list(self._open.items()):
            yield from self._read(key, entry, now)

    def close(self) -> None:
        """Let go of every descriptor."""
        for key in list(self._open):
            self._release(key)

    def _read(self, key: tuple[int, int], entry: _Entry, now: float) -> Iterator[Chunk]:
        file = entry.file
        taken, overlong = file.taken, file.overlong
        try:
            lines = file.read()
            written = file.modified() or now
            if not entry.moved and file.has_moved():
                entry.moved = self._rotated = True
            is_gone = now - entry.grew > UNLINKED_S and file.is_unlinked()
        except OSError as error:
            self.unreadable[file.path] = _reason(error)
            self._release(key)
            return
        self.overlong_lines += file.overlong - overlong
        if file.taken != taken:
            entry.grew = now
            yield Chunk(file.origin, key, written, file.taken - taken, lines, taken < entry.history)
        elif is_gone:
            self._release(key)
            del self._quiet[key]
        elif now - entry.grew > QUIET_S:
            self._release(key)

    def _release(self, key: tuple[int, int]) -> None:
        entry = self._open.pop(key)
        entry.file.release()
        self._quiet[key] = entry

    def _rescan(self, now: float) -> None:
        for entry in self._quiet.values():
            entry.found = False
        fresh: list[str] = []
        for seen in self._watch.scan(int(now * 1e9)):
            known = self._open.get(seen.key) or self._quiet.get(seen.key)
            if known is not None:
                known.found, known.moved, known.file.path = True, False, seen.path
            elif seen.wanted:
                fresh.append(seen.path)
        self.unreadable = dict(self._watch.unreadable)
        for key in [key for key, entry in self._quiet.items() if not entry.found]:
            del self._quiet[key]
        if self._scanned is None:
            self._admit_history(fresh, now)
        else:
            for path in fresh:
                self._follow(path, 0, 0, now)

    def _admit_history(self, paths: Sequence[str], now: float) -> None:
        stats = sorted(self._stats(paths), key=lambda item: item[0])
        newest = stats[-1][0] if stats else now
        for place, (modified, size, path) in enumerate(stats, start=1):
            if newest - modified <= HISTORY_AGE_S and place > len(stats) - MAX_OPEN:
                start = max(0, size - HISTORY_BYTES)
                self._follow(path, start, size - start, modified)
            else:
                key = self._follow(path, size, 0, modified)
                if key in self._open:
                    self._release(key)

    def _stats(self, paths: Sequence[str]) -> Iterator[tuple[float, int, str]]:
        for path in paths:
            try:
                status = os.stat(path, follow_symlinks=False)
                yield status.st_mtime, status.st_size, path
            except FileNotFoundError:
                continue
            except OSError as error:
                self.unreadable[path] = _reason(error)

    def _follow(self, path: str, start: int, history: int, grew: float) -> tuple[int, int] | None:
        try:
            file = FollowedFile(path, start)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.unreadable[path] = _reason(error)
            return None
        self._open[file.key] = _Entry(file, history, grew)
        if len(self._open) > MAX_OPEN:
            self._release(file.key)
        return file.key

    def _read_woken(self, now: float) -> Iterator[Chunk]:
        for key, entry in list(self._quiet.items()):
            try:
                woken = entry.file.has_changed() and entry.file.reopen()
            except OSError as error:
                self.unreadable[entry.file.path] = _reason(error)
                continue
            if woken:
                entry.grew = now
                self._open[key] = self._quiet.pop(key)
                yield from self._read(key, entry, now)
                if len(self._open) > MAX_OPEN and key in self._open:
                    self._release(key)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
