"""The folders that a job writes to, as the `storage` probe saw them from each node."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from oncall.bundle.evidence import Evidence, Part
from oncall.run.numbers import whole

_ENDED_BY_TIMEOUT = frozenset({124, 137})
"""Exit codes of timeout(1) for a command that it had to end."""


@dataclass(frozen=True, slots=True)
class Space:
    """One folder seen from one node.

    `answers` is False where even looking at it took too long, `exists` is None then. Room in KiB and inodes; None
    where the system did not tell. `kind` is the file system's, `read_only` how it is mounted.
    """

    host: str
    name: str
    path: str
    answers: bool
    exists: bool | None
    total_kb: int | None
    free_kb: int | None
    inodes: int | None
    free_inodes: int | None
    kind: str | None
    read_only: bool | None


@dataclass(frozen=True, slots=True)
class Writer:
    """A process that holds a file of the checkpoint folder open, and how far it had come at both looks."""

    host: str
    pid: int
    rank: int | None
    path: str
    states: tuple[str | None, str | None]
    positions: tuple[int | None, int | None]

    @property
    def blocked(self) -> bool:
        """Whether it waited uninterruptibly in the kernel at both looks."""
        return self.states == ("D", "D")

    @property
    def moved(self) -> bool:
        """Whether it wrote between the looks."""
        first, second = self.positions
        return first is not None and second is not None and second > first


@dataclass(frozen=True, slots=True)
class StorageSet:
    """All nodes' views. `sizes_kb` maps a host to the size of its newest checkpoint at both looks, None if not told.

    `looked` names the hosts that looked for writers.
    """

    spaces: tuple[Space, ...]
    writers: tuple[Writer, ...]
    sizes_kb: dict[str, tuple[int | None, int | None]]
    looked: tuple[str, ...]

    @property
    def growing(self) -> bool:
        """Whether a checkpoint is written: the newest one grew between the looks, or one of its writers moved on."""
        grew = any(a is not None and b is not None and b > a for a, b in self.sizes_kb.values())
        return grew or any(writer.moved for writer in self.writers)


def storage_set(evidence: Evidence) -> StorageSet:
    """Read the answers of the `storage` probe."""
    spaces: list[Space] = []
    writers: list[Writer] = []
    sizes: dict[str, tuple[int | None, int | None]] = {}
    looked = []
    for host in evidence.asked:
        parts = evidence.whole_parts(host)
        spaces += [_space(host, part) for part in parts if part.name == "space"]
        samples = {part.attributes.get("sample"): part for part in parts if part.name == "writers"}
        if "2" in samples:
            looked.append(host)
            writers += _writers(host, samples["1"], samples["2"]) if "1" in samples else []
        size = {part.attributes.get("sample"): _size_kb(part.text) for part in parts if part.name == "size"}
        if size:
            sizes[host] = (size.get("1"), size.get("2"))
    return StorageSet(tuple(spaces), tuple(writers), sizes, tuple(looked))


def _space(host: str, part: Part) -> Space:
    rows = {line.split(" ", 1)[0]: line.split()[1:] for line in part.text.split("\n") if line.strip()}
    code = whole(" ".join(rows.get("exit", [])))
    blocks, inodes, mount = rows.get("blocks", []), rows.get("inodes", []), rows.get("mount", [])
    return Space(
        host=host,
        name=part.attributes.get("name", ""),
        path=part.attributes.get("path", ""),
        answers=code not in _ENDED_BY_TIMEOUT,
        exists=None if code is None or code in _ENDED_BY_TIMEOUT else code == 0,
        total_kb=_column(blocks, 1),
        free_kb=_column(blocks, 3),
        inodes=_column(inodes, 1) or None,
        free_inodes=_column(inodes, 3),
        kind=mount[0] if mount else None,
        read_only="ro" in mount[1].split(",") if len(mount) > 1 else None,
    )


def _column(row: list[str], index: int) -> int | None:
    """A column of df, counted from the first, where the device's name may hold blanks: from the right, then."""
    percent = next((at for at, word in enumerate(row) if word.endswith("%")), None)
    at = index - 4 + percent if percent is not None else index
    return whole(row[at]) if 0 <= at < len(row) else None


def _size_kb(text: str) -> int | None:
    words = text.split()
    return whole(words[0]) if words else None


def _writers(host: str, first: Part, second: Part) -> Iterator[Writer]:
    before = {(pid, path): (state, at) for pid, _, state, at, path in _rows(first.text.split("\n"))}
    for pid, rank, state, at, path in _rows(second.text.split("\n")):
        earlier = before.get((pid, path), (None, None))
        yield Writer(host, pid, rank, path, (earlier[0], state), (earlier[1], at))


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, int | None, str, int | None, str]]:
    for line in lines:
        words = line.split(" ", 4)
        pid = whole(words[0])
        if len(words) == 5 and pid is not None:
            yield pid, whole(words[1]), words[2], whole(words[3]), words[4]
