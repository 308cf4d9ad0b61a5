"""Whether anybody still writes a run's files: the processes that hold one open for writing, from /proc."""

import os
from collections.abc import Callable, Collection, Iterator

SEARCH_S = 60.0
"""Between two searches through all processes; one that went away starts a search at once."""

_WRITES = os.O_WRONLY | os.O_RDWR


class Writers:
    """Processes with a descriptor open for writing on one of the run's files.

    Only links and flags of descriptors are read, which takes no lock of the process, so a process that hangs in the
    kernel delays nothing.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._known: set[tuple[str, str, str]] = set()
        self._ever = False
        self._searched: float | None = None

    def count(self, paths: Callable[[], Collection[str]], now: float) -> int | None:
        """Processes that write to `paths` (without symbolic links) now; `now` in unix seconds.

        `paths` is asked only when a search is due.

        None as long as none was ever seen: the trainer may open its files for each line, run as another user, or in
        another container, and a zero would say that it is gone.
        """
        left = {known for known in self._known if self._still(*known)}
        is_due = self._searched is None or not 0 <= now - self._searched < SEARCH_S
        if is_due or len(left) < len(self._known):
            self._known = set(self._search(paths()))
            self._searched = now
        self._ever = self._ever or bool(self._known)
        return len({pid for pid, _, _ in self._known}) if self._ever else None

    def _still(self, pid: str, descriptor: str, path: str) -> bool:
        return self._target(pid, descriptor) == path

    def _search(self, wanted: Collection[str]) -> Iterator[tuple[str, str, str]]:
        for pid in os.listdir(self._proc):
            if not pid.isdigit():
                continue
            try:
                descriptors = os.listdir(f"{self._proc}/{pid}/fd")
            except OSError:
                # Gone since, or another user's.
                continue
            for descriptor in descriptors:
                path = self._target(pid, descriptor)
                if path is not None and path in wanted and self._writes(pid, descriptor):
                    yield pid, descriptor, path

    def _target(self, pid: str, descriptor: str) -> str | None:
        try:
            return os.readlink(f"{self._proc}/{pid}/fd/{descriptor}")
        except OSError:
            return None

    def _writes(self, pid: str, descriptor: str) -> bool:
        try:
            with open(f"{self._proc}/{pid}/fdinfo/{descriptor}") as info:
                for line in info:
                    if line.startswith("flags:"):
                        return bool(int(line.split()[1], 8) & _WRITES)
        except OSError:
            return False
        return False
