"""The training processes of all nodes, as the `processes` probe saw them."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import compress

from oncall.bundle.evidence import Evidence, Part
from oncall.formats.kernel_time import NodeClock
from oncall.readings.case import Case
from oncall.readings.clock import node_clock
from oncall.run.numbers import whole

_ONE_ANSWER_S = 60.0
"""A process may begin while its node answers, after the clock was read."""
_MOST_JOBS = 64
"""Jobs on the same hosts that are told apart; a node may tell of any number."""
_CLOCK_TICKS_PER_S = 100
"""USER_HZ, the unit of the times in /proc/PID/stat; 100 on every Linux that runs GPUs (proc(5))."""


@dataclass(frozen=True, slots=True)
class TrainingProcess:
    """One training process.

    `state` and `state_again` are the letters of /proc/PID/stat, half a second apart; `state_again` is None where there
    was no second look, or where the process had `ended` by then. `age_s` is None where the node's clock is not known.
    `start_ticks` since boot are those of /proc/PID/stat. `rss_kb` in KiB.
    """

    host: str
    pid: int | None
    rank: int
    state: str | None
    state_again: str | None
    ended: bool
    age_s: float | None
    start_ticks: int | None
    rss_kb: int | None
    waits_in: str | None
    command: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        """A variable of its environment as a whole number, or None."""
        return whole(self.variables.get(name))

    @property
    def world_size(self) -> int | None:
        """How many ranks its launcher told it that there are."""
        return self.number("WORLD_SIZE") or self.number("SLURM_NTASKS")

    def of_another_job(self, other: "TrainingProcess") -> bool:
        """Whether the launchers of two processes tell that they are of different jobs.

        An elastic launcher may start the same job with another size or port, and `none` is torchrun's name for any job.
        """
        names = ("TORCHELASTIC_RUN_ID",) if self._run_id and other._run_id else ("WORLD_SIZE", "MASTER_PORT")
        pairs = ((self.variables.get(name), other.variables.get(name)) for name in names)
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)

    @property
    def _run_id(self) -> str | None:
        told = self.variables.get("TORCHELASTIC_RUN_ID")
        return None if told == "none" else told

    @property
    def stopped(self) -> bool:
        """Whether it was stopped (by a signal or a tracer) at both looks."""
        return self.state in {"T", "t"} and self.state_again in {"T", "t"}

    @property
    def blocked(self) -> bool:
        """Whether it waited uninterruptibly in the kernel at both looks."""
        return self.state == "D" and self.state_again == "D"

    @property
    def gone(self) -> bool:
        """Whether it had ended at the second look: a zombie, or no process any more."""
        return self.ended or self.state_again in {"Z", "X"}


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """The job's training processes as far as seen, and `others` that are of another job on the same hosts.

    `agents` counts the launcher processes on each host that answered, `clocks` are the hosts' own. `blind` says why
    ranks of a host may be there unseen: the login may not read the environment of processes that could be theirs, the
    answer was cut short, or another machine gave it.
    """

    processes: tuple[TrainingProcess, ...]
    others: tuple[TrainingProcess, ...]
    agents: Mapping[str, int]
    clocks: Mapping[str, NodeClock]
    blind: Mapping[str, str]

    @property
    def world_size(self) -> int | None:
        """How many ranks the job has by its processes' own account; None where they tell nothing, or do not agree."""
        sizes = {size for process in self.processes if (size := process.world_size)}
        return sizes.pop() if len(sizes) == 1 else None

    def by_rank(self) -> dict[int, TrainingProcess]:
        """The process of each rank; where several claim one rank, the youngest."""
        chosen: dict[int, TrainingProcess] = {}
        for process in sorted(self.processes, key=lambda each: -(each.age_s or 0.0)):
            chosen[process.rank] = process
        return chosen


def process_table(evidence: Evidence) -> ProcessTable:
    """Read the answers of the `processes` probe."""
    processes: list[TrainingProcess] = []
    agents: dict[str, int] = {}
    clocks: dict[str, NodeClock] = {}
    blind: dict[str, str] = {}
    for host in evidence.asked:
        parts = evidence.whole_parts(host)
        clock = node_clock(evidence.answers.get(host), parts)
        if clock is not None:
            clocks[host] = clock
        processes += _processes(host, parts, clock)
        for part in parts:
            if part.name == "agents":
                agents[host] = sum(bool(line) for line in part.text.split("\n"))
            elif part.name == "access" and (why := _blindness(part)):
                blind[host] = why
        if why := evidence.why_cut(host):
            blind[host] = why
    blind.update(_twins(processes))
    own = _largest_job(processes)
    foreign = [own is not None and each.of_another_job(own) for each in processes]
    return ProcessTable(
        processes=tuple(each for each, of_another in zip(processes, foreign, strict=True) if not of_another),
        others=tuple(compress(processes, foreign)),
        agents=agents,
        clocks=clocks,
        blind=blind,
    )


def _largest_job(processes: Iterable[TrainingProcess]) -> TrainingProcess | None:
    """A process of the job that is on the most hosts, of several the one with most ranks; None where that is a tie."""
    jobs: list[list[TrainingProcess]] = []
    for process in processes:
        known = next((job for job in jobs if not process.of_another_job(job[0])), None)
        if known is not None:
            known.append(process)
        elif len(jobs) < _MOST_JOBS:
            jobs.append([process])
    sizes = [(len({each.host for each in job}), len({each.rank for each in job})) for job in jobs]
    largest = max(sizes, default=(0, 0))
    return jobs[sizes.index(largest)][0] if sizes.count(largest) == 1 else None


def other_jobs(case: Case) -> frozenset[tuple[str, int]]:
    """The training processes of other jobs on the run's hosts, by host and pid."""
    table = case.view("processes", process_table)
    return frozenset((each.host, each.pid) for each in (table.others if table else ()) if each.pid is not None)


def _twins(processes: Iterable[TrainingProcess]) -> Iterator[tuple[str, str]]:
    """Hosts that show the same process: two names lead to one machine, and the other was not asked."""
    hosts: dict[tuple[int, int | None, int | None], list[str]] = {}
    for process in processes:
        hosts.setdefault((process.rank, process.pid, process.start_ticks), []).append(process.host)
    for shared in hosts.values():
        for host in shared if len(set(shared)) > 1 else ():
            yield host, f"{' and '.join(dict.fromkeys(shared))} answer as one machine"


def _blindness(access: Part) -> str | None:
    user = access.attributes.get("user", "the login")
    if access.attributes.get("others_hidden"):
        return f"{user} sees no processes but its own (hidepid)"
    others = access.text.split()
    return f"{user} may not read the environment of {len(others)} Python processes of others" if others else None


def _processes(host: str, parts: tuple[Part, ...], clock: NodeClock | None) -> Iterator[TrainingProcess]:
    uptime = clock.uptime_s if clock else None
    again = {part.attributes.get("pid"): _stat(part.text)[0] for part in parts if part.name == "again"}
    for part in parts:
        rank = part.number("rank")
        if part.name != "process" or rank is None:
            continue
        pid = part.attributes.get("pid", "")
        state, start_ticks = _stat(part.text)
        started_s = None if start_ticks is None else start_ticks / _CLOCK_TICKS_PER_S
        yield TrainingProcess(
            host=host,
            pid=part.number("pid"),
            rank=rank,
            state=state,
            state_again=again.get(pid),
            ended=pid in again and again[pid] is None,
            age_s=_age_s(uptime, started_s),
            start_ticks=start_ticks,
            rss_kb=whole(_value(part.text, "rss").split(" ")[0]),
            waits_in=_value(part.text, "wchan").strip("0") or None,
            command=_value(part.text, "command").strip(),
            variables=dict(_variables(part.text)),
        )


def _age_s(uptime_s: float | None, started_s: float | None) -> float | None:
    """None where the process began well after now: in some containers the uptime is not that of the kernel (lxcfs)."""
    if uptime_s is None or started_s is None or started_s - uptime_s > _ONE_ANSWER_S:
        return None
    return max(0.0, uptime_s - started_s)


def _value(text: str, key: str) -> str:
    for line in text.split("\n"):
        if line.startswith(key + " "):
            return line[len(key) + 1 :]
    return ""


def _variables(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        if line.startswith("env ") and "=" in line:
            name, _, value = line[4:].partition("=")
            # Of thousands of processes most say the same.
            yield sys.intern(name), sys.intern(value)


def _stat(text: str) -> tuple[str | None, int | None]:
    """State letter and start time in clock ticks since boot; the name before them may hold anything (proc(5))."""
    told = "\n".join(line[5:] for line in text.split("\n") if line.startswith("stat "))
    fields = told.rpartition(")")[2].split()
    if len(fields) < 20:
        return None, None
    return fields[0], whole(fields[19])
