"""What a Flight Recorder dump holds once it is read: frozen values, nothing of the file format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from oncall.flight_recorder.collective_table import CollectiveTable


class Kind(StrEnum):
    """The vocabulary of verdicts; each value is what `--json` prints."""

    MISSING_COLLECTIVE = "missing_collective"
    """The rank skipped a collective that its peers issued; what it issues next is what they issue one later."""
    EXTRA_COLLECTIVE = "extra_collective"
    """The rank issued a collective that its peers did not."""
    SIZE_MISMATCH = "size_mismatch"
    """Same sequence number and operation, other element count."""
    DTYPE_MISMATCH = "dtype_mismatch"
    """Same sequence number and operation, other element type."""
    TYPE_MISMATCH = "type_mismatch"
    """Same sequence number, other operation."""
    SPLIT_MISMATCH = "split_mismatch"
    """The rows that an all_to_all sends and those that it receives do not agree over the group."""
    UNEVEN_ITERATIONS = "uneven_iterations"
    """The rank looped a different number of times: all that follows is shifted by more than one."""
    EARLY_EXIT = "early_exit"
    """The rank left the loop and waits in a closing collective."""
    STUCK_BEFORE_COLLECTIVE = "stuck_before_collective"
    """The host has not issued what the others wait for: Python, data, a lock."""
    IN_LAUNCH = "in_launch"
    """Recorded but not enqueued: the host is inside the launch call."""
    GPU_STALLED = "gpu_stalled"
    """Issued like its peers, but it still holds operations that they finished."""
    P2P_MISMATCH = "p2p_mismatch"
    """A send without its receive, or the reverse, or two ends that disagree in size or element type."""
    CYCLE = "cycle"
    """Ranks wait for each other in a ring: groups used in opposite orders."""
    TRANSPORT_STALL = "transport_stall"
    """Everyone joined and nobody finishes: library, NIC or switch."""
    PROCESS_LOST = "process_lost"
    """No dump from the one rank that is unaccounted for; a dead process and a frozen host look alike in the dumps."""


class Grade(StrEnum):
    """How far the dumps alone carry a statement."""

    SURE = "sure"
    LIKELY = "likely"
    UNDECIDED = "undecided"


class Frame(NamedTuple):
    """One Python frame of a recorded stack."""

    name: str
    file: str
    line: int


Stack = tuple[Frame, ...]
"""Frames innermost first."""


class Signature(NamedTuple):
    """What all members of a collective have to agree on; `sent` and `received` are element counts.

    `parts` are the operations of a coalesced launch, in order; `sent` and `received` are then their sums.
    """

    op: str
    dtypes: tuple[str, ...]
    sent: int | None
    received: int | None
    parts: tuple["Signature", ...] = ()


Ends = tuple[int, int] | tuple[None, None]
"""Group-local (source, destination) of a send or receive; None where its name does not tell, as of any source."""


STATES = ("scheduled", "started", "completed")
"""What the recorder writes under `state` (torch 2.13, `c10d/FlightRecorderDetail.hpp`)."""


class Op(NamedTuple):
    """One recorded operation of one rank; `record` orders a rank's own operations and nothing else."""

    record: int
    group: str
    """Name of the process group, as entries give it."""
    seq: int
    p2p_seq: int
    signature: Signature
    done: bool
    created_ns: int | None
    stack: Stack
    peers: Ends | None
    """Of a send or receive only."""
    state: str | None
    """As the file has it, of those in `STATES`."""


_UNDESCRIBED = {"", "undefined"}
"""What `new_group` writes where it is given no description (torch 2.13, `distributed_c10d.py`), and older versions."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: name, purpose, global ranks in group order. `inferred` members are a lower bound."""

    name: str
    desc: str
    ranks: tuple[int, ...]
    inferred: bool = False

    @property
    def described(self) -> bool:
        """Whether its description says what it is for."""
        return self.desc not in _UNDESCRIBED

    @property
    def label(self) -> str:
        """What to call it: its purpose, or its name where none is told."""
        return self.desc if self.described else self.name


@dataclass(frozen=True, slots=True)
class Counters:
    """Newest operation of a group by `pg_status`; None where the recorder does not say (-1 in the file)."""

    enqueued: int | None
    completed: int | None


class Channel(NamedTuple):
    """One direction between two group-local ranks, seen from one of its ends."""

    group: str
    sends: bool
    source: int
    destination: int


@dataclass(frozen=True, slots=True)
class RankDump:
    """What is kept of one rank's dump.

    `durations` are milliseconds by group name and sequence number; `channels` are the record numbers of all sends and
    receives in the ring, ascending; `launches` are the record and p2p sequence numbers by group name of those that are
    not among the `ops`; `total` counts the entries of the file, of which `ops` are those the analysis reads; `descs`
    names the purpose of groups as entries state it; `wrapped` says that the ring no longer begins at the start of the
    job; `span_s` are the seconds from its oldest entry to its newest.
    """

    rank: int
    source: str
    host: str | None
    version: str | None
    device: bool
    ops: tuple[Op, ...]
    config: Mapping[str, Group]
    descs: Mapping[str, str]
    counters: Mapping[str, Counters]
    durations: Mapping[str, Mapping[int, float]]
    channels: Mapping[Channel, Sequence[int]]
    launches: Mapping[str, tuple[Sequence[int], Sequence[int]]]
    total: int
    wrapped: bool
    span_s: float | None
    only_active: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that gave no dump, with the reason; `rank` when its name tells."""

    source: str
    reason: str
    rank: int | None


@dataclass(frozen=True, slots=True)
class DumpSet:
    """The dumps of one job by rank, and the files that could not be used."""

    dumps: Mapping[int, RankDump]
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a chain: `rank` waits on an operation, called at `frame`; `held_by` is who holds it up, and `why`."""

    rank: int
    group: Group
    seq: int
    op: str
    held_by: tuple[int, ...]
    why: str
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the waiting ranks a statement explains."""

    ranks: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Origin:
    """What the others wait for in the end.

    `ranks` are the accused, empty when the dumps name nobody (a stalled transport, a tie); `among` are then the ranks
    it is one of. `frame` is the first frame outside PyTorch of the accused operation, None where the rank issued
    nothing; `last_frame` is where that rank last called a collective; `victim_frame` is where its peers wait.
    """

    kind: Kind
    ranks: tuple[int, ...]
    among: tuple[int, ...]
    group: Group | None
    seq: int | None
    op: str | None
    found_op: str | None
    frame: Frame | None
    last_frame: Frame | None
    victim_frame: Frame | None
    grade: Grade
    explains: Share
    chain: tuple[Hop, ...]
    says: str
    next_check: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """Waiting that the dumps cannot explain; the dumps of the `deciding` ranks, or else their stacks, would decide.

    `victim_frame` is where the others wait.
    """

    deciding: tuple[int, ...]
    group: Group | None
    seq: int | None
    explains: Share
    reason: str
    victim_frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """A rank without a usable dump: what became of its file, as far as known, and the likely reasons."""

    rank: int
    reason: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """How complete the dumps were. `world` is the number of ranks the job is known to have."""

    world: int
    dumps: int
    absent: tuple[Absent, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """The answer. A healthy set has no origins and nothing undecided; `motion` says why dumps look taken on the run.

    `tables` show the groups of the origins, in their order; without an origin those that most ranks wait in.
    """

    origins: tuple[Origin, ...]
    undecided: tuple[Undecided, ...]
    coverage: Coverage
    waiting: tuple[int, ...]
    motion: str | None
    tables: tuple[CollectiveTable, ...] = ()
