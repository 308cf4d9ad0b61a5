"""What else do the kernels report: trouble that can stop a job, a silent file system, or only what does no harm?"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Finding, Judgement, Role, unknown
from oncall.readings.hardware import fault_kind, ranks_of
from oncall.readings.incident import recent
from oncall.readings.incident_part import TROUBLE, Part, part_of
from oncall.readings.kernel_set import KernelEvent, kernel_set
from oncall.readings.kernel_state import tells_of_trouble
from oncall.readings.kernel_words import describe, said
from oncall.readings.outlived import last_step
from oncall.run.nodes import fold_hosts

_FEW = 8


def kernel_signs(case: Case) -> Judgement:
    """What is left to tell, where no fault was found?

    `trouble`: a link that is down, a file system that does not answer, a CPU or task that stands still, and it is not
    over. `mild`: only what leaves a job alone, or is over. `none`: nothing. `unknown`: nothing where a kernel log was
    read, but not all were.
    """
    events = [event for event in _reported(case) if not _of_other_programs(event)]
    trouble = [event for event in events if part_of(event.event) in TROUBLE and not event.ended]
    for verdict, found in (("trouble", trouble), ("mild", events)):
        if found:
            return _told(verdict, tuple(_findings(case, found, faults=verdict == "trouble")))
    return _nothing(case, "no kernel log tells of anything else")


def silent_storage(case: Case) -> Judgement:
    """Does a kernel tell of a network file system that has not answered since the job stopped?

    `silent`: it does, and nothing tells that it answers again. `none`: no kernel does. `unknown`: none where a kernel
    log was read, but not all were.
    """
    last = last_step(case)
    silent = [
        event
        for event in _reported(case)
        if part_of(event.event) is Part.STORAGE and not event.ended and (last is None or last.came_with(event))
    ]
    if silent:
        return _told("silent", tuple(_findings(case, silent, faults=True)))
    return _nothing(case, "no kernel log tells of a file system that does not answer")


def _reported(case: Case) -> Iterator[KernelEvent]:
    kernels = case.view("kernel", kernel_set)
    for event in kernels.events if kernels else ():
        if tells_of_trouble(event.event) and recent(case, event.latest):
            yield event


def _of_other_programs(event: KernelEvent) -> bool:
    """What befell a program of the host that does not train is no matter of the job's."""
    return part_of(event.event) is Part.JOB and event.event.kind != "xid"


def _told(verdict: str, findings: tuple[Finding, ...]) -> Judgement:
    reason = "; ".join(finding.text for finding in findings[:3])
    more = f"; and {len(findings) - 3} more" if len(findings) > 3 else ""
    return Judgement(verdict=verdict, reason=reason + more, findings=(*findings[:_FEW], *_more(findings[_FEW:])))


def _more(findings: Sequence[Finding]) -> Iterator[Finding]:
    """All beyond the first few as one, so that no host that reports something is left out."""
    if findings:
        hosts = tuple(dict.fromkeys(host for finding in findings for host in finding.hosts))
        yield structs.replace(
            findings[0],
            text=f"{len(findings)} more on {fold_hosts(hosts)}, such as {findings[0].text}",
            hosts=hosts,
            ranks=tuple(sorted({rank for finding in findings for rank in finding.ranks})),
        )


def _nothing(case: Case, words: str) -> Judgement:
    kernels, asked = case.view("kernel", kernel_set), case.coverage("kernel").asked
    unread = [host for host in asked if kernels is None or host not in kernels.read]
    if unread or not asked:
        return unknown(f"the kernel log of {fold_hosts(unread) or 'no host'} was not read")
    return Judgement(verdict="none", reason=words)


def _findings(case: Case, events: Iterable[KernelEvent], *, faults: bool) -> Iterator[Finding]:
    """One finding for all lines that say the same, of however many hosts."""
    alike: dict[tuple[str, str | None, bool], list[KernelEvent]] = {}
    for event in events:
        alike.setdefault((said(event.event), event.pci_address, event.ended), []).append(event)
    for own in alike.values():
        hosts = tuple(dict.fromkeys(event.host for event in own))
        times = f", {len(own):,} times" if len(own) > 1 else ""
        yield Finding(
            kind=fault_kind(own[0]) if faults else "observation",
            text=f"{fold_hosts(hosts)}: {describe(own[0])}{times}",
            role=Role.ORIGIN,
            grade=Grade.LIKELY,
            ranks=tuple(sorted({rank for event in own for rank in ranks_of(case, event)})),
            hosts=hosts,
            time=own[0].at,
            cites=tuple(event.cite for event in own[:_FEW]),
        )
