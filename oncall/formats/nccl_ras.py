"""What NCCL's RAS service answers to `verbose status`: text of NCCL 2.24 on, JSON of 2.28.7 on.

Read in src/ras/client_support.cc of NCCL 2.24 to 2.30. Nodes are IP addresses, ranks count inside a communicator.
The text tells of counts only where ranks of a communicator differ.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from oncall.run.numbers import whole


@dataclass(frozen=True, slots=True)
class RasProcess:
    """A process of the job; `rank` counts inside `communicator`. What is not told is None."""

    host: str | None
    pid: int | None
    rank: int | None = None
    communicator: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class RasCounts:
    """How many operations of one kind each process of a communicator has launched.

    `launched` maps processes to their counts; `others` maps a count to how many further ranks share it that the text
    does not name one by one.
    """

    communicator: str
    size: int | None
    operation: str
    launched: Mapping[RasProcess, int]
    others: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RasStatus:
    """One answer: processes that are dead, those that did not reply, those with an error, and the counts told.

    `whole` says that `counts` covers every communicator, as JSON does; text covers those that differ.
    """

    version: str | None
    dead: tuple[RasProcess, ...]
    silent: tuple[RasProcess, ...]
    failed: Mapping[RasProcess, str]
    counts: tuple[RasCounts, ...]
    whole: bool


class _State(msgspec.Struct):
    init_state: int = 0
    async_error: int = 0
    unresponsive: bool = False
    considered_dead: bool = False


class _Rank(msgspec.Struct):
    rank: int
    host: str = ""
    pid: int = -1
    status: _State = msgspec.field(default_factory=_State)
    collective_counts: dict[str, int] = {}


class _Communicator(msgspec.Struct):
    hash: str
    size: int
    ranks: list[_Rank] = []
    missing_ranks: list[_Rank] = []


class _Answer(msgspec.Struct):
    communicators: list[_Communicator]
    nccl_version: str | None = None


_FINE = frozenset({0, 7})
"""ncclSuccess and ncclInProgress (nccl.h)."""
_ERRORS = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
}


def read_json(data: bytes) -> RasStatus | None:
    """The JSON form; None where it is not that."""
    try:
        answer = msgspec.json.decode(data, type=_Answer)
    except (msgspec.DecodeError, RecursionError):
        return None
    dead: list[RasProcess] = []
    silent: list[RasProcess] = []
    failed: dict[RasProcess, str] = {}
    counts: list[RasCounts] = []
    for each in answer.communicators:
        for rank in each.missing_ranks:
            (dead if rank.status.considered_dead else silent).append(_process(each, rank))
        for rank in each.ranks:
            code = next((c for c in (rank.status.async_error, rank.status.init_state) if c not in _FINE), None)
            if code is not None:
                failed[_process(each, rank)] = _ERRORS.get(code, f"error {code}")
        for operation in dict.fromkeys(name for rank in each.ranks for name in rank.collective_counts):
            told = {_process(each, r): n for r in each.ranks if (n := r.collective_counts.get(operation)) is not None}
            counts.append(RasCounts(each.hash, each.size, operation, told))
    return RasStatus(answer.nccl_version, tuple(dead), tuple(silent), failed, tuple(counts), whole=True)


def _process(communicator: _Communicator, rank: _Rank) -> RasProcess:
    return RasProcess(
        host=rank.host if rank.host not in {"", "unknown"} else None,
        pid=rank.pid if rank.pid > 0 else None,
        rank=rank.rank,
        communicator=communicator.hash,
        size=communicator.size,
    )


_VERSION = re.compile(r"NCCL version (\S+)")
_HEAD = re.compile(r"#\d+-\d+ \((?P<hash>[0-9a-fA-F]+)\) (?P<kind>INCOMPLETE|ERROR|MISMATCH)")
_SECTION = re.compile(r"(?P<kind>DEAD|INCOMPLETE|TIMEOUT)\s*$")
_PROCESS = re.compile(r"  Process (?P<pid>\d+) on node (?P<host>\S+) managing GPU")
_OPERATION = re.compile(r"  Communicator ranks have different (?P<operation>\w+) operation counts")
_STATUS = re.compile(r"  Communicator ranks have different status")
_MANY = re.compile(r"  (?P<count>\d+) ranks have (?:launched up to operation (?P<at>\d+)|not launched any operations)")
_MANY_REPORTED = re.compile(r"  \d+ ranks reported (?P<error>.+?)\s*$")
_RANK = re.compile(
    r"  Rank (?P<rank>\d+)(?: has launched up to operation (?P<at>\d+)| has (?P<none>not launched any operations)"
    r"| reported (?P<error>.+?))? -- (?:GPU .* managed by process (?P<pid>\d+) on node (?P<host>\S+)|\[)"
)


class _Text:
    """Collects the lines of one answer."""

    def __init__(self) -> None:
        self.dead: list[RasProcess] = []
        self.silent: list[RasProcess] = []
        self.failed: dict[RasProcess, str] = {}
        self.counts: list[RasCounts] = []
        self._kind = ""
        self._communicator: str | None = None
        self._launched: dict[RasProcess, int] | None = None
        self._others: dict[int, int] = {}
        self._at = 0
        self._error = ""

    def feed(self, line: str) -> None:
        """Take the next line."""
        if head := _HEAD.match(line):
            self._kind, self._communicator, self._launched = head["kind"], head["hash"], None
        elif section := _SECTION.match(line):
            self._kind, self._communicator, self._launched = section["kind"], None, None
        elif found := _PROCESS.match(line):
            process = RasProcess(found["host"], whole(found["pid"]))
            (self.dead if self._kind == "DEAD" else self.silent).append(process)
        elif found := _OPERATION.match(line):
            self._launched, self._others = {}, {}
            self.counts.append(
                RasCounts(self._communicator or "", None, found["operation"], self._launched, self._others)
            )
        elif _STATUS.match(line):
            self._launched = None
        elif found := _MANY.match(line):
            self._at = whole(found["at"]) or 0
            self._others[self._at] = whole(found["count"]) or 0
        elif found := _MANY_REPORTED.match(line):
            self._error = found["error"]
        elif found := _RANK.match(line):
            self._rank(found)

    def _rank(self, found: re.Match[str]) -> None:
        process = RasProcess(found["host"], whole(found["pid"]), whole(found["rank"]), self._communicator)
        if self._kind == "INCOMPLETE":
            self.silent.append(process)
        elif self._kind == "ERROR":
            self.failed[process] = found["error"] or self._error
        elif self._launched is not None:
            single = found["at"] is not None or found["none"] is not None
            at = (whole(found["at"]) or 0) if single else self._at
            self._launched[process] = at
            if not single:
                self._others[at] -= 1
                if not self._others[at]:
                    del self._others[at]


def read_text(text: str) -> RasStatus | None:
    """The text form; None where it is not that, or ends before the communicators."""
    version = _VERSION.search(text)
    if "Communicators..." not in text or "Warnings" not in text:
        return None
    reader = _Text()
    for line in text.split("\n"):
        reader.feed(line)
    return RasStatus(
        version[1] if version else None,
        tuple(reader.dead),
        tuple(reader.silent),
        reader.failed,
        tuple(reader.counts),
        whole=False,
    )
