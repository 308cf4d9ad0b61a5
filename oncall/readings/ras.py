"""What does NCCL itself say of the job: processes dead or silent, ranks that launched less than their peers?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from oncall.bundle.evidence import Evidence, Part
from oncall.flight_recorder.model import Grade
from oncall.formats.nccl_ras import RasProcess, RasStatus, read_json, read_text
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.process_table import process_table
from oncall.readings.ras_counts import Standing, launched_between, same, standing


@dataclass(frozen=True, slots=True)
class RasLooks:
    """The answers of one host's RAS service in order, and why others gave none."""

    host: str | None
    looks: tuple[RasStatus, ...]
    refused: dict[str, str]


def ras_looks(evidence: Evidence) -> RasLooks:
    """Read the answers of the `nccl_ras` probe; the host with the most looks speaks, since each knows all."""
    refused: dict[str, str] = {}
    best: tuple[str | None, tuple[RasStatus, ...]] = (None, ())
    for host in evidence.asked:
        parts = evidence.whole_parts(host)
        looks = tuple(status for part in parts if part.name == "status" and (status := _status(part)) is not None)
        if len(looks) > len(best[1]):
            best = (host, looks)
        for part in parts:
            if part.name in {"refused", "disabled", "no-client"}:
                refused[host] = part.text.strip() or part.name.replace("-", " ")
            elif part.name == "status" and not looks:
                refused[host] = "its answer cannot be read"
    return RasLooks(*best, refused)


def ras(case: Case) -> Judgement:
    """What does NCCL itself say of the job, at both of two looks?

    `lost`: it counts a process as dead or silent. `failed`: a rank reports an error. `behind`: a rank has launched
    fewer collectives than its peers and none between the looks. `moving`: the counts grew between the looks.
    `all-launched`: nobody is named, which does not say that anything finishes. `unknown`: there were not two looks.
    """
    seen = case.view("nccl_ras", ras_looks)
    if seen is None or not seen.looks:
        told = next(iter(seen.refused.items()), None) if seen else None
        return unknown(f"{told[0]}: {told[1]}" if told else f"no answer: {case.coverage('nccl_ras').describe()}")
    if len(seen.looks) < 2:
        return unknown(f"{seen.host} answered once, and one look proves nothing")
    first, last = seen.looks[0], seen.looks[-1]
    for verdict, findings in (
        ("lost", _lost(case, seen, first, last)),
        ("failed", _failed(case, seen, first, last)),
        ("behind", _behind(case, seen, first, last)),
    ):
        if findings:
            return Judgement(verdict=verdict, reason="; ".join(f.text for f in findings[:3]), findings=findings)
    if moved := launched_between(first, last):
        return Judgement(verdict="moving", reason=f"at least {moved} more operations were launched between two looks")
    still = "no count changed" if last.whole else "the text form tells no counts where all are equal, nor what changed"
    return Judgement(verdict="all-launched", reason=f"NCCL names nobody at two looks; {still}")


def _status(part: Part) -> RasStatus | None:
    return read_json(part.data) if part.attributes.get("form") == "json" else read_text(part.text)


def _both(first: Iterable[RasProcess], last: Iterable[RasProcess]) -> list[RasProcess]:
    known = {same(process) for process in first}
    return list({same(process): process for process in last if same(process) in known}.values())


def _lost(case: Case, seen: RasLooks, first: RasStatus, last: RasStatus) -> tuple[Finding, ...]:
    dead, silent = _both(first.dead, last.dead), _both(first.silent, last.silent)
    silent = [process for process in silent if same(process) not in {same(each) for each in dead}]
    return tuple(
        _origin(case, seen, process, kind, words)
        for processes, kind, words in (
            (dead, "process_lost", "NCCL holds it for dead: not reached for 60 s"),
            (silent, "host_frozen", "it did not answer NCCL at two looks"),
        )
        for process in processes[:8]
    )


def _failed(case: Case, seen: RasLooks, first: RasStatus, last: RasStatus) -> tuple[Finding, ...]:
    found = _both(first.failed, last.failed)
    return tuple(
        _origin(case, seen, process, "transport_stall", f"NCCL reports: {last.failed[process]}")
        for process in found[:8]
    )


def _behind(case: Case, seen: RasLooks, first: RasStatus, last: RasStatus) -> tuple[Finding, ...]:
    return tuple(_held_up(case, seen, each) for each in islice(standing(first, last), 8))


def _held_up(case: Case, seen: RasLooks, behind: Standing) -> Finding:
    words = f"launched {behind.count} {behind.operation}s, the others {behind.most}"
    if behind.process is not None:
        return _origin(case, seen, behind.process, "stuck_before_collective", f"it {words}")
    text = f"{behind.ranks} ranks that NCCL does not name {words}"
    return Finding(
        kind="stuck_before_collective",
        text=text,
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        cites=(Citation(probe="nccl_ras", host=seen.host, text=text),),
    )


def _origin(case: Case, seen: RasLooks, process: RasProcess, kind: str, words: str) -> Finding:
    ranks = _ranks(case, process)
    place = f"pid {process.pid} on {process.host}" if process.pid is not None else f"a process on {process.host}"
    who = case.name_ranks(ranks) if ranks else place
    return Finding(
        kind=kind,
        text=f"{who}: {words}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        ranks=ranks,
        hosts=case.ranks.hosts_of(ranks),
        group=process.communicator,
        cites=(Citation(probe="nccl_ras", host=seen.host, text=f"{place}: {words}"),),
    )


def _ranks(case: Case, process: RasProcess) -> tuple[int, ...]:
    """By pid, where one host alone runs it; else by rank in a communicator of the whole world."""
    table = case.view("processes", process_table)
    named: Sequence[int] = [each.rank for each in table.processes if each.pid == process.pid] if table else []
    if len(named) == 1:
        return (named[0],)
    hosts = {host for host, address in case.run.reach.addresses.items() if address == process.host}
    near = [each.rank for each in table.processes if each.pid == process.pid and each.host in hosts] if table else []
    if len(near) == 1:
        return (near[0],)
    whole_world = process.rank is not None and process.size is not None and process.size == case.ranks.world_size
    return (process.rank,) if whole_world and process.rank is not None else ()
