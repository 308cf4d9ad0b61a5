"""What each attempt of a job died of first: what a rank's own stderr says, or the launcher's agent."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncall.formats.event import Event
from oncall.readings.attempts_agent import WorkerEnd, worker_ends
from oncall.readings.case import Case
from oncall.readings.log_set import LogFile, LogSet

_RAISED = re.compile(
    r"^(?:\[rank\d+\]:\s?)?(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit))(?::|$)"
)
_BY_OTHERS = re.compile(
    r"closed by peer|reset by peer|DistBackendError|DistStoreError|DistNetworkError|SignalException|NCCL|[Gg]loo"
    r"|[Ss]ocket [Tt]imeout|[Tt]imed out|ChildFailedError|KeyboardInterrupt"
)
"""Words of an exception that a rank dies of because another one was gone."""
_WAITED = ("nccl_", "watchdog_", "timeout_at_work", "process_takedown")
"""Kinds of events in the log of a rank that aborts itself since it waited in vain for others."""
_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+")

Place = tuple[int, str, int | None]
"""An attempt, a host and a local rank on it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What one rank of one attempt died of.

    `rank` is None where no map tells it, `step` is the last that the attempt's logs show. `age_s` is the time since the
    file was last written, or since the agent saw the end.
    """

    attempt: int
    host: str
    local_rank: int | None
    rank: int | None
    step: int | None
    error: str
    age_s: float | None
    file: LogFile

    @property
    def signature(self) -> str:
        """The error with every number taken out but an exit code's, so that equal errors compare equal."""
        return self.error if self.error.startswith("killed by ") else _VARIES.sub("#", self.error)

    @property
    def place(self) -> Place:
        """Where it was."""
        return self.attempt, self.host, self.local_rank


def failures(case: Case, logs: LogSet) -> tuple[Failure, ...]:
    """The first failure of each attempt, oldest attempt first.

    An attempt of which nothing is told is left out, and so is one whose logs show only what ranks died of because
    another one was gone: who that was, they do not tell. An agent's bare exit code counts where nothing else does.
    """
    steps = _last_steps(logs.files)
    told, victims = _by_ranks(case, logs, steps)
    known = {failure.place for failure in told}
    sure: dict[int, list[Failure]] = {}
    bare: dict[int, list[Failure]] = {}
    for failure in told:
        sure.setdefault(failure.attempt, []).append(failure)
    for end in worker_ends(logs):
        place = (end.attempt, end.host, end.local_rank)
        if not end.by_others and place not in known and not (place in victims and _may_follow(end)):
            chosen = sure if end.signal is not None else bare
            chosen.setdefault(end.attempt, []).append(_of_agent(case, steps, end))
    first = {attempt: min(found, key=_written) for attempt, found in {**bare, **sure}.items()}
    return tuple(first[attempt] for attempt in sorted(first))


def _may_follow(end: WorkerEnd) -> bool:
    """Whether a rank that lost its peers may end so: by an exception, or since NCCL's watchdog aborts it."""
    return end.signal in {None, "SIGABRT"}


def _by_ranks(case: Case, logs: LogSet, steps: Mapping[int, int]) -> tuple[list[Failure], set[Place]]:
    """What ranks of this launch raised themselves, and the places of those who lost another one."""
    found: list[Failure] = []
    victims: set[Place] = set()
    for file in logs.files:
        if file.attempt is None or not logs.of_now(file):
            continue
        error = _last_error(file.lines)
        if error is not None and not _BY_OTHERS.search(error):
            found.append(_of_rank(case, steps, file, file.attempt, error))
        elif error is not None or any(map(_waited, file.events)):
            victims.add((file.attempt, file.host, file.local_rank))
    return found, victims


def _waited(event: Event) -> bool:
    return event.kind.startswith(_WAITED)


def _of_rank(case: Case, steps: Mapping[int, int], file: LogFile, attempt: int, error: str) -> Failure:
    rank = file.rank
    if rank is None and file.local_rank is not None:
        rank = case.ranks.rank_of(file.host, file.local_rank)
    return Failure(attempt, file.host, file.local_rank, rank, steps.get(attempt), error, file.age_s, file)


def _of_agent(case: Case, steps: Mapping[int, int], end: WorkerEnd) -> Failure:
    return Failure(
        attempt=end.attempt,
        host=end.host,
        local_rank=end.local_rank,
        rank=case.ranks.rank_of(end.host, end.local_rank),
        step=steps.get(end.attempt),
        error=end.words,
        age_s=end.age_s,
        file=end.file,
    )


def _last_error(lines: Iterable[str]) -> str | None:
    """The last line that names an exception, without the rank's tag."""
    found = None
    for line in lines:
        if _RAISED.match(line):
            found = re.sub(r"^\[rank\d+\]:\s?", "", line).strip()[:300]
    return found


def _last_steps(files: Iterable[LogFile]) -> dict[int, int]:
    """Attempt → the last step that any of its logs shows."""
    last: dict[int, int] = {}
    for file in files:
        step = file.last_step.number("step") if file.last_step else None
        if file.attempt is not None and step is not None:
            last[file.attempt] = max(step, last.get(file.attempt, step))
    return last


def _written(failure: Failure) -> float:
    return -(failure.age_s or 0.0)
