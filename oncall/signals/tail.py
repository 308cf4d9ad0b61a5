"""Follows every file of a run on this node: new ones, rotated ones, and those that went quiet."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oncall.signals.folder_watch import FileSeen, FolderSeen, FolderWatch
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

    `key` stays the file's own when it is renamed. `written` is its modification time in unix seconds, `size` the bytes
    that the reader went on by. `historical`: the lines stood there before the start.
    """

    path: str
    key: tuple[int, int]
    written: float
    size: int
    lines: list[bytes]
    historical: bool


@dataclass(slots=True)
class _Entry:
    file: FollowedFile
    history: int
    grew: float
    found: bool = True
    moved: bool = False


class Tail:
    """All files under `roots` whose names match `names`, each whole line handed on once."""

    def __init__(self, roots: Sequence[str], names: re.Pattern[str]) -> None:
        self._watch = FolderWatch([os.path.realpath(root) for root in roots], names)
        self._entries: dict[tuple[int, int], _Entry] = {}
        self._scanned: float | None = None
        self._rotated = False
        self._overlong_gone = 0
        self.unreadable: dict[str, str] = {}

    @property
    def files(self) -> int:
        """Files known, quiet ones included."""
        return len(self._entries)

    @property
    def overlong_lines(self) -> int:
        """Lines dropped for their length so far."""
        return self._overlong_gone + sum(entry.file.overlong for entry in self._entries.values())

    def unread_bytes(self) -> int:
        """Bytes of open files that were not handed on: backlog, and last lines without their newline."""
        return sum(entry.file.unread() for entry in self._entries.values())

    def folders(self) -> Iterator[FolderSeen]:
        """The folders under the roots, as of the last look for new files."""
        return self._watch.folders()

    def paths(self) -> set[str]:
        """The files known, quiet ones included."""
        return {entry.file.path for entry in self._entries.values()}

    def poll(self, now: float) -> Iterator[Chunk]:
        """What was written since the last call; `now` is the wall clock in unix seconds.

        What cannot be read is in `unreadable` afterwards, path → reason, until a later look succeeds.
        """
        if self._scanned is None or self._rotated or not 0 <= now - self._scanned < RESCAN_S:
            self._rescan(now)
            self._scanned, self._rotated = now, False
            yield from self._wake(now)
        for key, entry in list(self._entries.items()):
            if entry.file.is_open:
                yield from self._read(key, entry, now)

    def close(self) -> None:
        """Let go of every descriptor."""
        for entry in self._entries.values():
            entry.file.release()

    def _read(self, key: tuple[int, int], entry: _Entry, now: float) -> Iterator[Chunk]:
        file = entry.file
        try:
            before = file.taken
            lines = file.read()
            if file.taken != before:
                entry.grew = now
                historical = before < entry.history
                written = file.modified() or now
                yield Chunk(file.path, key, written, file.taken - before, lines, historical)
            if not entry.moved and file.has_moved():
                entry.moved = self._rotated = True
            if now - entry.grew > UNLINKED_S and file.is_unlinked():
                self._forget(key)
            elif now - entry.grew > QUIET_S:
                file.release()
        except OSError as error:
            self.unreadable[file.path] = error.strerror or str(error)
            file.release()

    def _forget(self, key: tuple[int, int]) -> None:
        entry = self._entries.pop(key)
        self._overlong_gone += entry.file.overlong
        entry.file.release()

    def _rescan(self, now: float) -> None:
        for entry in self._entries.values():
            entry.found = False
        fresh: list[FileSeen] = []
        for seen in self._watch.scan(int(now * 1e9)):
            known = self._entries.get(seen.key)
            if known is not None:
                known.found, known.moved, known.file.path = True, False, seen.path
            elif seen.wanted:
                fresh.append(seen)
        self.unreadable = dict(self._watch.unreadable)
        for key in [key for key, entry in self._entries.items() if not (entry.found or entry.file.is_open)]:
            self._forget(key)
        self._admit(fresh, now)

    def _wake(self, now: float) -> Iterator[Chunk]:
        held = self._held()
        for key, entry in list(self._entries.items()):
            if entry.file.is_open:
                continue
            try:
                woken = entry.file.has_changed() and entry.file.reopen()
            except OSError as error:
                self.unreadable[entry.file.path] = error.strerror or str(error)
                continue
            if woken:
                entry.grew = now
                yield from self._read(key, entry, now)
                held += 1
                if held > MAX_OPEN:
                    entry.file.release()
                    held -= 1

    def _held(self) -> int:
        return sum(entry.file.is_open for entry in self._entries.values())

    def _admit(self, fresh: Sequence[FileSeen], now: float) -> None:
        starting = self._scanned is None
        stats: list[tuple[float, int, FileSeen]] = []
        for seen in fresh:
            try:
                status = os.stat(seen.path, follow_symlinks=False)
                stats.append((status.st_mtime, status.st_size, seen))
            except FileNotFoundError:
                continue
            except OSError as error:
                self.unreadable[seen.path] = error.strerror or str(error)
        stats.sort(key=lambda item: item[0])
        newest = stats[-1][0] if stats else now
        held = self._held()
        for place, (modified, size, seen) in enumerate(stats, start=1):
            recent = newest - modified <= HISTORY_AGE_S and place > len(stats) - MAX_OPEN
            start = 0 if not starting else max(0, size - HISTORY_BYTES) if recent else size
            file = self._open(seen.path, start)
            if file is not None:
                self._entries[file.key] = _Entry(file, size - start if starting else 0, modified if starting else now)
                held += 1
                if held > MAX_OPEN or (starting and not recent):
                    file.release()
                    held -= 1

    def _open(self, path: str, start: int) -> FollowedFile | None:
        try:
            return FollowedFile(path, start)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.unreadable[path] = error.strerror or str(error)
            return None
