"""Restarts of a job, read from the folders that torchrun makes: LOG_DIR/RUN_ID_random/attempt_N/LOCAL_RANK.

Layout: torch/distributed/elastic/multiprocessing/api.py, PyTorch 2.13. A restart for a changed membership takes no
new number: the attempt's folder is deleted and made again, often with the same inode.
"""

import re
from collections.abc import Iterable

from oncall.signals.folder_watch import FolderSeen

_ATTEMPT = re.compile(r"/attempt_\d+$")

_MAKING_S = 5.0
"""An attempt's folder is filled within this time; a later change of the newest one means that it was made again."""


class Attempts:
    """Counts the attempts of the launches on one node."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int], float] = {}
        self._newest: tuple[str, int] | None = None
        self._count = 0

    def take(self, folders: Iterable[FolderSeen]) -> None:
        """Note the folders that stand there now."""
        for folder in folders:
            if not _ATTEMPT.search(folder.path):
                continue
            key = (folder.path, folder.inode)
            made = self._made.get(key)
            # Deleting old logs changes their folder too, so only the newest can have been made again.
            if made is None or (key == self._newest and folder.modified - made > _MAKING_S):
                self._made[key] = folder.modified
                self._count += 1
                if self._newest is None or folder.modified >= self._made[self._newest]:
                    self._newest = key

    @property
    def restarts(self) -> int | None:
        """Attempts after the first; None while there is no attempt to see."""
        return self._count - 1 if self._count else None

    @property
    def newest_start(self) -> float | None:
        """When the newest attempt began, in unix seconds."""
        return None if self._newest is None else self._made[self._newest]
