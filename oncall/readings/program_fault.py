"""Did the training program bring itself down: an error in its own GPU code, a crash, more memory than there is?"""

from collections.abc import Collection

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Finding, Judgement, Role, unknown
from oncall.readings.hardware import accused_on, ranks_of
from oncall.readings.incident import run_incidents
from oncall.readings.incident_part import Part, part_of
from oncall.readings.kernel_set import KernelEvent, kernel_set
from oncall.readings.kernel_words import describe
from oncall.readings.process_table import process_table
from oncall.readings.suspected import accusations
from oncall.readings.training_names import like_training
from oncall.run.nodes import fold_hosts


def program_fault(case: Case) -> Judgement:
    """Did the program bring itself down?

    `program`: a code of the program's own making, such as Xid 13, 31 or 43, or a crash, that follows no fault of the
    hardware. `memory`: the kernel killed a training process as memory ran out. `clear`: neither. `unknown`: a kernel
    log was not read.
    """
    kernels = case.view("kernel", kernel_set)
    suspects = tuple(dict.fromkeys(host for finding in accusations(case) for host in finding.hosts))
    asked = suspects or case.coverage("kernel").asked
    unread = tuple(host for host in asked if kernels is None or host not in kernels.read)
    found = _own_errors(case, asked)
    memory = [event for event in found if event.event.kind == "oom_kill"]
    if found:
        findings = tuple(_finding(case, event) for event in (memory or found)[:8])
        verdict = "memory" if memory else "program"
        return Judgement(verdict=verdict, reason="; ".join(f.text for f in findings[:3]), findings=findings)
    if unread or not asked:
        return unknown(f"the kernel log of {fold_hosts(unread) or 'no host'} was not read")
    return Judgement(verdict="clear", reason=f"no kernel log of {fold_hosts(asked)} tells of an error of the program")


def _own_errors(case: Case, hosts: tuple[str, ...]) -> list[KernelEvent]:
    """Errors of the program itself that began an incident, or that have no time."""
    incidents = run_incidents(case)
    table = case.view("processes", process_table)
    known = {(process.host, process.pid) for process in table.processes} if table else set()
    return [
        event
        for event in incidents.kernel.values()
        if event.host in hosts
        and part_of(event.event) is Part.JOB
        and _of_training(event, known)
        and ((incident := incidents.of(event)) is None or part_of(incident.first.event) is Part.JOB)
    ]


def _of_training(event: KernelEvent, known: Collection[tuple[str, int | None]]) -> bool:
    name = event.event.text("process")
    return (event.host, event.event.number("pid")) in known or name is None or like_training(name)


def _finding(case: Case, event: KernelEvent) -> Finding:
    memory = event.event.kind == "oom_kill"
    rss_kb = event.event.number("anon_rss_kb")
    held = f", which held {rss_kb / 1024**2:.0f} GiB" if memory and rss_kb else ""
    pid = event.event.number("pid")
    who = f", pid {pid}" if pid is not None else ""
    return Finding(
        kind="out_of_memory" if memory else "program_error",
        text=f"{event.host}: {describe(event)}{who}{held}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        ranks=_ranks(case, event, pid),
        hosts=(event.host,),
        time=event.at,
        cites=(event.cite,),
    )


def _ranks(case: Case, event: KernelEvent, pid: int | None) -> tuple[int, ...]:
    """By process where it still runs, by GPU where one is named, else what earlier steps named on that host."""
    table = case.view("processes", process_table)
    by_pid = tuple(p.rank for p in table.processes if p.pid == pid and p.host == event.host) if table else ()
    return by_pid or (ranks_of(case, event) if event.pci_address else ()) or accused_on(case, event.host)
