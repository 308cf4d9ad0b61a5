"""Does a kernel report a fault of a GPU, a link, memory or the host that explains the stop?"""

from collections.abc import Iterable
from datetime import timedelta

from oncall.flight_recorder.model import Grade
from oncall.formats.xid_catalogue import lookup
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.kernel_set import KernelEvent, KernelSet, kernel_set
from oncall.run.nodes import fold_hosts

_GPU_KINDS = frozenset({"xid", "sxid", "gpu_lost", "gsp_heartbeat_timeout", "rm_init_failed", "gpu_memsys_error"})
_FEW = 8


def hardware(case: Case) -> Judgement:
    """`fault`, `clear`, or `unknown` where the kernel log of a suspect's host was not read.

    Where earlier steps named origins, only their hosts can answer; without any, all hosts are asked.
    """
    kernels = case.view("kernel", kernel_set)
    if kernels is None or not kernels.read:
        return unknown(_why_none(case, kernels))
    suspects = tuple(dict.fromkeys(host for finding in case.origins() for host in finding.hosts))
    asked = suspects or case.coverage("kernel").asked
    unread = tuple(host for host in asked if host not in kernels.read)
    recent = [event for event in kernels.events if _recent(case, event)]
    faults = [event for event in recent if event.pages is not False and event.host in asked]
    elsewhere = [event for event in recent if event.pages and event.host not in asked]
    mild = [event for event in recent if event not in faults and event not in elsewhere]
    findings = _origins(case, faults) + _context(case, elsewhere, Role.AGAINST) + _context(case, mild, Role.CONTEXT)
    if faults:
        return Judgement(verdict="fault", reason="; ".join(f.text for f in findings[:3]), findings=findings)
    if unread:
        why = {kernels.refused.get(host, "no answer") for host in unread}
        return unknown(f"no fault where the kernel log was read; not read: {fold_hosts(unread)} ({'; '.join(why)})")
    reason = (
        f"no fault in the kernel log of {fold_hosts(asked)} in the last {case.run.thresholds.recent_s / 3600:.1g} h"
    )
    return Judgement(verdict="clear", reason=reason, findings=findings)


def _why_none(case: Case, kernels: KernelSet | None) -> str:
    if kernels is not None and kernels.refused:
        host, reason = next(iter(kernels.refused.items()))
        return f"no kernel log may be read; {host}: {reason}"
    return f"no kernel log was read: {case.coverage('kernel').describe()}"


def _recent(case: Case, event: KernelEvent) -> bool:
    """Whether an event may belong to this stop; one without a time may."""
    return event.at is None or case.now - event.at <= timedelta(seconds=case.run.thresholds.recent_s)


def ranks_of(case: Case, event: KernelEvent) -> tuple[int, ...]:
    """The ranks on the GPU that an event is about; all of the host's for its other faults; none where not known."""
    own = case.ranks.on(event.host)
    if event.pci_address is None:
        return own if event.event.kind not in _GPU_KINDS else ()
    return tuple(rank for rank in own if case.ranks.places[rank].pci_address == event.pci_address)


def describe(event: KernelEvent) -> str:
    """`Xid 79 (GPU has fallen off the bus) on 0000:4f:00 at 02:58:12`."""
    code = event.event.number("xid")
    meaning = lookup(code) if code is not None else None
    what = f"Xid {code}" if code is not None else event.event.kind.replace("_", " ")
    told = f" ({meaning.meaning})" if meaning and meaning.meaning else " (in no table)" if code is not None else ""
    where = f" on {event.pci_address}" if event.pci_address else ""
    when = f" at {event.at:%H:%M:%S}" if event.at else ""
    return f"{what}{told}{where}{when}"


def _origins(case: Case, faults: Iterable[KernelEvent]) -> tuple[Finding, ...]:
    """The first fault of each GPU, or of each host for what is about none; what followed is cited with it."""
    first: dict[tuple[str, str | None], list[KernelEvent]] = {}
    for event in faults:
        first.setdefault((event.host, event.pci_address), []).append(event)
    return tuple(_origin(case, events) for events in first.values())


def _origin(case: Case, events: list[KernelEvent]) -> Finding:
    event = events[0]
    ranks = ranks_of(case, event) or _lost_on(case, event.host)
    tied = any(event.host in finding.hosts for finding in case.origins())
    unsure = event.pages is None or event.at is None or not tied
    return Finding(
        kind="gpu_fault" if event.event.kind in _GPU_KINDS else "host_fault",
        text=f"{event.host}: {describe(event)}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY if unsure else Grade.SURE,
        ranks=ranks,
        hosts=(event.host,),
        time=event.at,
        cites=tuple(_citation(each) for each in events[:_FEW]),
    )


def _lost_on(case: Case, host: str) -> tuple[int, ...]:
    """Ranks that earlier steps named on this host: whose GPU it was, the address alone does not tell."""
    return tuple(rank for finding in case.origins() if host in finding.hosts for rank in finding.ranks)


def _context(case: Case, events: list[KernelEvent], role: Role) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            kind="observation",
            text=f"{event.host}: {describe(event)}",
            role=role,
            ranks=ranks_of(case, event) if event.pci_address else (),
            hosts=(event.host,),
            time=event.at,
            cites=(_citation(event),),
        )
        for event in events[:_FEW]
    )


def _citation(event: KernelEvent) -> Citation:
    return Citation(probe="kernel", host=event.host, line=event.event.first_line, text=event.line[:400])
