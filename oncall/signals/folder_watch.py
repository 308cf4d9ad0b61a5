"""Finds the files under some folders cheaply, again and again, however many old ones lie there."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MAX_DEPTH = 12
"""Folders below the given ones; a torchrun log stands three deep."""

_SETTLED_NS = 2_000_000_000
"""A folder's time stamp may be this coarse (ext3, NFS): within it, a listing may miss a change that left no trace."""

_RELIST_NS = 60_000_000_000
"""Every folder is listed again after this, for file systems that do not keep a folder's time stamp."""


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A regular file in a listing, with device and inode. `wanted`: its name is one that is asked for."""

    path: str
    key: tuple[int, int]
    wanted: bool


@dataclass(frozen=True, slots=True)
class FolderSeen:
    """A folder in the tree; `modified` in unix seconds, when an entry came or went last."""

    path: str
    inode: int
    modified: float


@dataclass(slots=True)
class _Listing:
    inode: int
    modified_ns: int
    listed_ns: int
    files: list[FileSeen] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


class FolderWatch:
    """The regular files under `roots`; symbolic links below a root are not followed.

    A folder is listed anew only when its modification time says that an entry came or went, so a rescan of thousands
    of old files in a few folders costs a few `stat` calls.
    """

    def __init__(self, roots: Sequence[str], names: re.Pattern[str]) -> None:
        self._roots = tuple(roots)
        self._names = names
        self._listings: dict[str, _Listing] = {}
        self.unreadable: dict[str, str] = {}

    def scan(self, now_ns: int) -> Iterator[FileSeen]:
        """Every file that stands there now; `now_ns` is the wall clock.

        A folder that cannot be listed is in `unreadable` afterwards, with the reason.
        """
        self.unreadable = {}
        stack = [(root, 0) for root in self._roots]
        reached: set[str] = set()
        while stack:
            folder, depth = stack.pop()
            listing = self._listing(folder, now_ns)
            if listing is None or folder in reached:
                continue
            reached.add(folder)
            yield from listing.files
            if depth < MAX_DEPTH:
                stack += [(name, depth + 1) for name in listing.folders]
        self._listings = {folder: self._listings[folder] for folder in reached}

    def folders(self) -> Iterator[FolderSeen]:
        """The folders of the last scan, the roots among them."""
        for path, listing in self._listings.items():
            yield FolderSeen(path, listing.inode, listing.modified_ns / 1e9)

    def _listing(self, folder: str, now_ns: int) -> _Listing | None:
        try:
            status = os.stat(folder)
            known = self._listings.get(folder)
            if known is None or _is_stale(known, status, now_ns):
                known = self._list(folder, status, now_ns)
                self._listings[folder] = known
        except OSError as error:
            self.unreadable[folder] = error.strerror or str(error)
            return None
        return known

    def _list(self, folder: str, status: os.stat_result, now_ns: int) -> _Listing:
        listing = _Listing(status.st_ino, status.st_mtime_ns, now_ns)
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    listing.folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    wanted = self._names.fullmatch(entry.name) is not None
                    listing.files.append(FileSeen(entry.path, (status.st_dev, entry.inode()), wanted))
        return listing


def _is_stale(known: _Listing, status: os.stat_result, now_ns: int) -> bool:
    return (
        status.st_mtime_ns != known.modified_ns
        or status.st_ino != known.inode
        or known.listed_ns - status.st_mtime_ns < _SETTLED_NS
        or not 0 <= now_ns - known.listed_ns < _RELIST_NS
    )
