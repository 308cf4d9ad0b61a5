"""Restarts of a job, read from the folders that torchrun makes: LOG_DIR/RUN_ID_random/attempt_N/LOCAL_RANK.

Layout: torch/distributed/elastic/multiprocessing/api.py, PyTorch 2.13. A restart for a changed membership takes no
new number: the folder is deleted and made again.
"""

import re
from collections.abc import Iterable

from oncall.signals.folder_watch import FolderSeen

_ATTEMPT = re.compile(r"/attempt_\d+$")


class Attempts:
    """Counts the attempts of the launches on one node."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._newest: float | None = None

    def take(self, folders: Iterable[FolderSeen]) -> None:
        """Note the folders that stand there now."""
        for folder in folders:
            key = (folder.path, folder.inode)
            if key not in self._seen and _ATTEMPT.search(folder.path):
                self._seen.add(key)
                # Only as first seen: deleting an old log later touches its folder too.
                self._newest = max(self._newest or 0.0, folder.modified)

    @property
    def restarts(self) -> int | None:
        """Attempts after the first; None while there is no attempt to see."""
        return len(self._seen) - 1 if self._seen else None

    @property
    def newest_start(self) -> float | None:
        """When the newest attempt began, in unix seconds."""
        return self._newest
