"""Is every rank's process there, and can it run? One that is gone, stopped or blocked holds up all others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from oncall.flight_recorder.model import Grade
from oncall.formats.event import Event
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.log_set import LogFile, LogSet, own_logs
from oncall.readings.process_table import ProcessTable, TrainingProcess, process_table
from oncall.run.nodes import fold_hosts, fold_ranks

_ENDED_BY_THE_REST = {
    "nccl_timeout",
    "watchdog_failure",
    "watchdog_terminated",
    "process_terminate",
    "process_takedown",
    "heartbeat_stuck",
}
"""Events after which a rank ends because others were missing: it is a victim, however dead."""


@dataclass(frozen=True, slots=True)
class _Missing:
    """Ranks without a process: lost before the others noticed, ended as a consequence, or on nodes not seen."""

    lost: tuple[int, ...]
    ended: tuple[int, ...]
    unseen: tuple[int, ...]


def alive(case: Case) -> Judgement:
    """Is each rank's process there, and can it run?

    `gone`: a rank has no process. `stopped`: it has one in state T. `blocked`: in state D at both looks. `job-gone`:
    there is no process and no launcher anywhere. `all-alive`: none of these. `unknown`: nodes were not seen.
    """
    table = case.view("processes", process_table)
    coverage = case.coverage("processes")
    if table is None or not coverage.answered:
        return unknown(f"no node told its processes: {coverage.describe()}")
    if not table.processes:
        return _nobody(case, table)
    seen = table.by_rank()
    missing = _missing(case, seen)
    grade = Grade.LIKELY if missing.unseen else Grade.SURE
    silent = set(missing.lost).intersection(case.unseen_ranks("logs"))
    for verdict, findings in (
        ("gone", _gone(case, missing, Grade.LIKELY if silent else grade)),
        ("stopped", _stopped(case, seen.values(), grade)),
        ("blocked", _blocked(case, seen.values(), grade)),
    ):
        if findings:
            return Judgement(verdict=verdict, reason="; ".join(each.text for each in findings), findings=findings)
    judged = _nothing_wrong_seen(case, len(seen), missing, table.blind)
    return msgspec.structs.replace(judged, reason=judged.reason + _others(table))


def _others(table: ProcessTable) -> str:
    hosts = fold_hosts(tuple(dict.fromkeys(each.host for each in table.others)))
    return f"; {len(table.others)} processes on {hosts} are of another job and do not count" if table.others else ""


def _nothing_wrong_seen(case: Case, running: int, missing: _Missing, blind: Mapping[str, str]) -> Judgement:
    if case.ranks.world_size is None:
        return unknown(f"{running} processes run, but nothing tells how many there must be")
    if missing.unseen:
        coverage = case.coverage("processes")
        hidden = (f"{host}: {why}" for host, why in blind.items() if host not in coverage.missing)
        told = "; ".join([coverage.describe(), *hidden])
        return unknown(f"{running} ranks run; not seen: {fold_ranks(missing.unseen)} ({told})")
    if missing.ended:
        return unknown(f"ranks {fold_ranks(missing.ended)} have ended, as their logs say because others were missing")
    return Judgement(verdict="all-alive", reason=f"all {running} ranks have a running process")


def _nobody(case: Case, table: ProcessTable) -> Judgement:
    coverage = case.coverage("processes")
    if not coverage.complete:
        return unknown(f"no training process where a node answered; {coverage.describe()}")
    if table.blind:
        host, why = next(iter(table.blind.items()))
        return unknown(f"no training process that the login may see; {host}: {why}")
    agents = [host for host, count in table.agents.items() if count]
    if agents:
        return unknown(f"no training process, but {len(agents)} nodes run a launcher: it may be starting")
    finding = Finding(
        kind="job_gone",
        text=f"no training process and no launcher on any of {len(coverage.asked)} nodes",
        cites=(Citation(probe="processes", text=coverage.describe()),),
    )
    return Judgement(verdict="job-gone", reason=finding.text, findings=(finding,))


def _missing(case: Case, seen: Mapping[int, TrainingProcess]) -> _Missing:
    absent = sorted(r for r in case.ranks.ranks if r not in seen or seen[r].gone)
    unseen = set(case.unseen_ranks("processes")) | _hidden(case, absent)
    here = [rank for rank in absent if rank not in unseen]
    logs = own_logs(case)
    ended = tuple(rank for rank in here if logs and _ended_by_the_rest(case, logs, rank))
    lost = tuple(rank for rank in here if rank not in ended)
    return _Missing(_first_to_go(case, logs, lost), ended, tuple(sorted(unseen - seen.keys())))


def _hidden(case: Case, absent: Iterable[int]) -> set[int]:
    """Absent ranks of hosts where the login may not see whose processes they are."""
    table = case.view("processes", process_table)
    blind = table.blind if table else {}
    return {rank for rank in absent if any(host in blind for host in case.ranks.hosts_of([rank]))}


def _files_of(case: Case, logs: LogSet, rank: int) -> Iterable[LogFile]:
    place = case.ranks.at(rank)
    for file in logs.current():
        of_place = place is not None and file.host == place.host and file.local_rank == place.local_rank
        if file.rank == rank or (file.local_rank is not None and of_place):
            yield file


def _ended_by_the_rest(case: Case, logs: LogSet, rank: int) -> bool:
    return any(event.kind in _ENDED_BY_THE_REST for file in _files_of(case, logs, rank) for event in file.events)


def _first_to_go(case: Case, logs: LogSet | None, lost: tuple[int, ...]) -> tuple[int, ...]:
    """Of several ranks lost on a node, the one that its launcher names first: it ends the others itself."""
    if logs is None or len(lost) < 2:
        return lost
    named = {rank for file in logs.files for event in file.events if (rank := _first_failed(case, file, event)) in lost}
    hosts = set(case.ranks.hosts_of(named))
    return tuple(r for r in lost if r in named or not set(case.ranks.hosts_of([r])) & hosts)


def _first_failed(case: Case, file: LogFile, event: Event) -> int | None:
    if event.kind == "elastic_failure_summary":
        root = event.fields.get("root_cause")
        rank = root.get("rank") if isinstance(root, dict) else event.number("rank")
        return rank if isinstance(rank, int) else None
    if event.kind == "elastic_worker_failed" and (local := event.number("local_rank")) is not None:
        return case.ranks.rank_of(file.host, local)
    return None


def _gone(case: Case, missing: _Missing, grade: Grade) -> tuple[Finding, ...]:
    return tuple(
        _origin(
            case, rank, grade, kind="process_lost", text="has no process any more", shown_by="no such process in /proc"
        )
        for rank in missing.lost
    )


def _stopped(case: Case, processes: Iterable[TrainingProcess], grade: Grade) -> tuple[Finding, ...]:
    return tuple(
        _origin(case, p.rank, grade, kind="host_frozen", text="is stopped", shown_by=f"pid {p.pid}: state {p.state}")
        for p in processes
        if p.stopped
    )


def _blocked(case: Case, processes: Iterable[TrainingProcess], grade: Grade) -> tuple[Finding, ...]:
    return tuple(
        _origin(
            case,
            p.rank,
            Grade.LIKELY if grade is Grade.SURE else grade,
            kind="blocked_in_kernel",
            text=f"waits in the kernel without end ({p.waits_in or 'where is not known'})",
            shown_by=f"pid {p.pid}: state D at both looks",
        )
        for p in processes
        if p.blocked
    )


def _origin(case: Case, rank: int, grade: Grade, *, kind: str, text: str, shown_by: str) -> Finding:
    hosts = case.ranks.hosts_of([rank])
    return Finding(
        kind=kind,
        text=f"{case.name_ranks([rank])} {text}",
        role=Role.ORIGIN,
        grade=grade,
        ranks=(rank,),
        hosts=hosts,
        cites=(Citation(probe="processes", host=hosts[0] if hosts else None, text=shown_by),),
    )
