"""Which dumps are of another run, or of an earlier start of this one? They may lie under the same names, as young."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from oncall.flight_recorder.groups import DEFAULT_GROUP
from oncall.flight_recorder.model import RankDump
from oncall.readings.case import Case
from oncall.readings.log_set import own_logs
from oncall.readings.process_table import ProcessTable, process_table
from oncall.readings.progress import newest_step

_CLOCK_SLACK_S = 2.0
"""Clocks are set while nodes run."""
_RUN_AHEAD_STEPS = 5
_LONG_AGO_S = 60.0
"""Hosts issue some steps ahead of the log that tells of them; an operation older than that, and than this, is none of
the last step's."""
_SET_CLOCK_NS = 946_684_800 * 10**9
"""The year 2000: an earlier time was stamped by a clock that was not set."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """How far a rank's log says that one of its groups had come."""

    group: str
    desc: str | None
    enqueued: int | None
    completed: int | None

    def contradict(self, dump: RankDump) -> str | None:
        """Why a dump cannot be of the process that wrote the log; None where it can."""
        named, told = dump.config.get(self.group), dump.counters.get(self.group)
        if named is None and dump.config.keys() - {""}:
            return f"it has no group {self.group}, of which the rank's log tells"
        if named is not None and self.desc and named.desc and named.desc != self.desc:
            return f"its group {self.group} is {named.desc}, in the rank's log it is {self.desc}"
        if told is None:
            return None
        for behind, ahead in ((told.enqueued, self.completed), (self.enqueued, told.completed)):
            if behind is not None and ahead is not None and behind < ahead:
                return (
                    f"it has come to {told.completed} of {told.enqueued} in group {self.group}, "
                    f"by the rank's log it is at {self.completed} of {self.enqueued}"
                )
        return None


@dataclass(frozen=True, slots=True)
class _Job:
    """What is known of the job besides its dumps. Times in unix seconds by the clock of the rank's own node.

    `began` is when a rank's process began, `stepped` when the rank must have issued something for the last step.
    """

    world_size: int | None
    began: Mapping[int, float]
    stepped: Mapping[int, float]
    logged: Mapping[int, tuple[_Counts, ...]]


def foreign_dumps(case: Case, dumps: Mapping[int, RankDump]) -> dict[int, str]:
    """Rank → why its dump contradicts what is known of the job; where nothing can tell, nothing contradicts.

    It has ranks or groups that the job has not, operations from before its process began or none since long before the
    last step, counts that the rank's own log rules out, or other ranks in its default group than most dumps have.
    """
    job, members = _job(case, dumps), _Members.of(dumps.values())
    told = ((rank, next(_contradictions(dump, job, members), None)) for rank, dump in sorted(dumps.items()))
    return {rank: why for rank, why in told if why is not None}


@dataclass(frozen=True, slots=True)
class _Members:
    """Who is in the groups of dumps, looked up once a group: equal rows of different dumps are one object.

    `highest` maps the identity of a group's ranks to the highest; `usual` are those of the default group of most dumps.
    """

    highest: Mapping[int, int]
    usual: tuple[int, ...] | None

    @classmethod
    def of(cls, dumps: Collection[RankDump]) -> "_Members":
        """Those of all dumps; no ranks are usual where no default group is that of more than half."""
        rows = {id(group.ranks): group.ranks for dump in dumps for group in dump.config.values()}
        counts = Counter(id(own) for dump in dumps if (own := _default_group(dump)))
        most = next((key for key, count in counts.most_common(1) if 2 * count > counts.total()), None)
        return cls({key: max(ranks, default=-1) for key, ranks in rows.items()}, None if most is None else rows[most])

    def highest_of(self, dump: RankDump) -> int:
        """The highest rank that a dump knows."""
        return max(dump.rank, *(self.highest[id(group.ranks)] for group in dump.config.values()), -1)


def _contradictions(dump: RankDump, job: _Job, members: _Members) -> Iterator[str]:
    own, size, usual = _default_group(dump), job.world_size, members.usual
    if size is not None and (highest := members.highest_of(dump)) >= size:
        yield f"it knows a rank {highest}, and the job has {size} ranks"
    if size is not None and own and len(own) != size:
        yield f"its default group has {len(own)} ranks, and the job {size}"
    if own and usual is not None and own is not usual and own != usual:
        yield f"its default group has {len(own)} ranks, that of most dumps other {len(usual)}"
    yield from _of_another_time(dump, job)
    for counts in job.logged.get(dump.rank, ()):
        if (why := counts.contradict(dump)) is not None:
            yield why


def _of_another_time(dump: RankDump, job: _Job) -> Iterator[str]:
    began, stepped = job.began.get(dump.rank), job.stepped.get(dump.rank)
    if began is None and stepped is None:
        return
    stamps = [ns for op in dump.ops if (ns := op.created_ns) is not None and ns > _SET_CLOCK_NS]
    if not stamps:
        return
    last = max(stamps) / 1e9
    first = min(stamps) / 1e9
    if (oldest := last - (dump.span_s or 0.0)) > _SET_CLOCK_NS / 1e9:
        first = min(first, oldest)
    if began is not None and first < began - _CLOCK_SLACK_S:
        yield f"it has operations of {_when(first)}, and the rank's process began at {_when(began)}"
    if stepped is not None and last < stepped and not dump.only_active:
        yield f"it has no operation after {_when(last)}, and steps have ended since"


def _when(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _default_group(dump: RankDump) -> tuple[int, ...]:
    return next((group.ranks for group in dump.config.values() if group.desc == DEFAULT_GROUP), ())


def _job(case: Case, ranks: Mapping[int, RankDump]) -> _Job:
    table = case.view("processes", process_table)
    if table is None:
        return _Job(case.run.ranks.world_size, {}, {}, _logged(case))
    clocks = {host: clock.now.timestamp() for host, clock in table.clocks.items()}
    hosts = {rank: place.host for rank in ranks if (place := case.ranks.at(rank)) is not None}
    since_s = _step_known_s(case)
    stepped = {} if since_s is None else {r: clocks[host] - since_s for r, host in hosts.items() if host in clocks}
    return _Job(table.world_size or case.run.ranks.world_size, _began(table, clocks, hosts), stepped, _logged(case))


def _began(table: ProcessTable, clocks: Mapping[str, float], hosts: Mapping[int, str]) -> dict[int, float]:
    """When each rank's process began. That of a rank that has none any more began with the others of its host."""
    own: dict[int, float] = {}
    first: dict[str, float] = {}
    for rank, process in table.by_rank().items():
        if process.age_s is not None and process.host in clocks:
            own[rank] = clocks[process.host] - process.age_s
            first[process.host] = min(own[rank], first.get(process.host, own[rank]))
    return {rank: first[host] for rank, host in hosts.items() if host in first} | own


def _step_known_s(case: Case) -> float | None:
    """How long ago a rank must have issued its newest operation at the latest, in seconds; None where nothing tells."""
    step = newest_step(case)
    if step is None or step.age_s is None or step.at_least:
        return None
    return step.age_s + max(_LONG_AGO_S, _RUN_AHEAD_STEPS * (step.normal_s or 0.0))


def _logged(case: Case) -> dict[int, tuple[_Counts, ...]]:
    """What the logs of the current attempt tell of each rank's groups."""
    logs, told = own_logs(case), defaultdict(list)
    for file in logs.current() if logs else ():
        for event in file.events:
            enqueued, completed = event.number("last_enqueued"), event.number("last_completed")
            rank, group = event.number("rank"), event.text("pg_guid")
            if group and rank is not None and (enqueued is not None or completed is not None):
                told[rank].append(_Counts(group, event.text("pg_desc"), enqueued, completed))
    return {rank: tuple(counts) for rank, counts in told.items()}
