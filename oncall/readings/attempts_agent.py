"""What torchrun's agent on each node says of the ends of attempts: which worker failed first there, and by what."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from oncall.formats.event import Event
from oncall.formats.kernel_time import EventTime, NodeClock, event_time
from oncall.readings.log_set import LogFile, LogSet
from oncall.readings.log_zone import log_clock, shifts

_SLACK_S = 2.0
"""A folder's age is told in whole seconds, and so is the node's clock when it was asked for it."""
_BY_AGENT = frozenset({"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"})
"""Signals by which agents, schedulers and people end a worker."""


@dataclass(frozen=True, slots=True)
class WorkerEnd:
    """The first worker of a node that an attempt ended with, as its agent saw it.

    `attempt` is the launcher's number of it, `age_s` the time since, None where no clock tells. `exitcode` is negative
    for a signal, whose name is `signal`.
    """

    host: str
    attempt: int
    local_rank: int
    exitcode: int
    signal: str | None
    age_s: float | None
    file: LogFile
    event: Event

    @property
    def words(self) -> str:
        """What it died of."""
        return f"killed by {self.signal} (exit code {self.exitcode})" if self.signal else f"exit code {self.exitcode}"

    @property
    def by_others(self) -> bool:
        """Whether it was told to end."""
        return self.signal in _BY_AGENT


def worker_ends(logs: LogSet) -> tuple[WorkerEnd, ...]:
    """The ends that the agents of the launch of now tell, in the order of each log.

    An agent does not say on which node it runs: a log that holds several agents' words, or that several nodes see, does
    not tell the place.
    """
    behind = shifts(logs.files)
    found: list[WorkerEnd] = []
    for file in logs.files:
        if logs.of_now(file) and _is_of_one_agent(file):
            found += _of_file(logs, file, log_clock(file, behind.get(file.host, timedelta())))
    seen = Counter(_told(end) for end in found)
    return tuple(end for end in found if seen[_told(end)] == 1)


def restart_count(logs: LogSet) -> int | None:
    """The largest number of restarts that an agent names; None where none does."""
    told = [event.number("restart_count") for file in logs.current() for event in file.events]
    return max((count for count in told if count is not None), default=None)


def _is_of_one_agent(file: LogFile) -> bool:
    ends = (event for event in file.events if event.kind == "elastic_worker_failed")
    return len({(event.number("agent_pid"), event.number("agent_tid")) for event in ends}) == 1


def _told(end: WorkerEnd) -> tuple[str, str | None, int | None]:
    return end.file.path, end.event.text("ts"), end.event.number("pid")


def _of_file(logs: LogSet, file: LogFile, clock: NodeClock | None) -> Iterator[WorkerEnd]:
    """One for each attempt: by the restart that the agent named last, by the folder of then, or by their order."""
    restarts: int | None = None
    ended = 0
    for event in file.events:
        if event.kind == "elastic_rendezvous":
            restarts = event.number("restart_count")
        local_rank, exitcode = event.number("local_rank"), event.number("exitcode")
        if event.kind != "elastic_worker_failed" or local_rank is None or exitcode is None:
            continue
        age_s = _age_s(event, clock)
        folder = _folder_of(logs, file.host, age_s)
        attempt = next(number for number in (restarts, folder, ended) if number is not None)
        yield WorkerEnd(file.host, attempt, local_rank, exitcode, event.text("signal"), age_s, file, event)
        ended += 1


def _age_s(event: Event, clock: NodeClock | None) -> float | None:
    at = event_time(event, clock)
    return (clock.now - at.at).total_seconds() if isinstance(at, EventTime) and clock is not None else None


def _folder_of(logs: LogSet, host: str, age_s: float | None) -> int | None:
    """The newest attempt whose folder is older than what happened in it."""
    if age_s is None:
        return None
    older = [n for (own, n), age in logs.attempt_ages_s.items() if own == host and age + _SLACK_S >= age_s]
    return max(older, default=None)
