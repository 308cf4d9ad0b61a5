"""Does a kernel report a fault of a GPU, a link, memory or the host that explains the stop?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Finding, Judgement, Role, unknown
from oncall.readings.incident import RunIncidents, run_incidents
from oncall.readings.incident_cause import Cause, told_causes
from oncall.readings.incident_part import Part, part_of
from oncall.readings.kernel_set import KernelEvent, KernelSet, kernel_set
from oncall.readings.kernel_state import tells_of_trouble
from oncall.readings.kernel_words import describe
from oncall.readings.outlived import last_step
from oncall.readings.suspected import accusations
from oncall.run.nodes import fold_hosts

_GPU_KINDS = frozenset({"xid", "sxid", "gpu_lost", "gsp_heartbeat_timeout", "rm_init_failed", "gpu_memsys_error"})
_AT_ONCE_S = 1.0
"""A power rail or PCIe switch that fails takes its GPUs along within this; the driver tells of one after the other."""
_FEW = 8
_FEW_TOLD = 4


def hardware(case: Case) -> Judgement:
    """Does a kernel report a fault that comes before everything else?

    `fault`: a line of the last two hours tells of hardware or a link, on a suspect's host where there are suspects: one
    that should wake somebody, that ranks suffered from, or that came just when the job stopped. `clear`: none does.
    `unknown`: the kernel log of a suspect's host, or of any host, was not read.

    Of a burst of events over many hosts only what was first is a fault; what it led to is told with it. A fault of a
    GPU that is no suspect's speaks against the suspects, and one that the job outlived only goes with them.
    """
    kernels = case.view("kernel", kernel_set)
    if kernels is None or not (kernels.read or kernels.events):
        return unknown(_why_none(case, kernels))
    scope = Scope.of(case)
    asked = scope.hosts
    unread = tuple(host for host in asked if host not in kernels.read)
    incidents = run_incidents(case)
    causes = told_causes(incidents, asked, scope.concerns) or _outlived_causes(incidents, scope)
    unseen = bool(unread) and not scope.accused
    told = (_origin(case, cause, causes, unseen=unseen) for cause in causes[:_FEW])
    origins = (*told, *_more(case, causes[_FEW:]))
    findings = (*origins, *_others(case, incidents, causes, scope))
    if causes:
        return Judgement(verdict="fault", reason="; ".join(f.text for f in findings[:3]), findings=findings)
    if unread:
        missing = case.coverage("kernel").missing
        why = dict.fromkeys(kernels.refused.get(host) or missing.get(host, "no answer") for host in unread)
        return unknown(f"no fault where the kernel log was read; not read: {fold_hosts(unread)} ({'; '.join(why)})")
    reason = (
        f"no fault in the kernel log of {fold_hosts(asked)} in the last {case.run.thresholds.recent_s / 3600:.1g} h"
    )
    besides = f"; reported besides: {'; '.join(f.text for f in findings[:2])}" if findings else ""
    return Judgement(verdict="clear", reason=reason + besides, findings=findings)


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose faults count: those of the accused ranks and their hosts, of all hosts where nobody is accused."""

    case: Case
    hosts: tuple[str, ...]
    accused: frozenset[int]

    @classmethod
    def of(cls, case: Case) -> "Scope":
        """By what earlier steps concluded."""
        named = accusations(case)
        hosts = tuple(dict.fromkeys(host for finding in named for host in finding.hosts))
        return cls(case, hosts or case.coverage("kernel").asked, frozenset(r for f in named for r in f.ranks))

    def concerns(self, event: KernelEvent) -> bool:
        """Whether an event may be of the accused: not where its GPU is another rank's, but that a link has two ends."""
        return event.host in self.hosts and (part_of(event.event) is Part.LINK or not self.of_another(event))

    def of_another(self, event: KernelEvent) -> bool:
        """Whether an event is of a GPU on which none of the accused runs."""
        own = ranks_of(self.case, event) if event.pci_address else ()
        return bool(self.accused and own) and self.accused.isdisjoint(own)

    def own(self, event: KernelEvent) -> bool:
        """Whether an event is of a GPU on which an accused rank runs."""
        return event.pci_address is not None and not self.accused.isdisjoint(ranks_of(self.case, event))


def _outlived_causes(incidents: RunIncidents, scope: Scope) -> tuple[Cause, ...]:
    """What an accused rank's own GPU reported, though steps ended after it: it may have broken down bit by bit."""
    own = (event for event in incidents.outlived if event.pages and scope.own(event))
    return tuple(Cause(event, event, (event,), None) for event in own)


def _why_none(case: Case, kernels: KernelSet | None) -> str:
    if kernels is not None and kernels.refused:
        host, reason = next(iter(kernels.refused.items()))
        return f"no kernel log may be read; {host}: {reason}"
    return f"no kernel log was read: {case.coverage('kernel').describe()}"


def fault_kind(event: KernelEvent) -> str:
    """The kind of the finding that tells of an event as a fault."""
    return "gpu_fault" if event.event.kind in _GPU_KINDS else "host_fault"


def ranks_of(case: Case, event: KernelEvent) -> tuple[int, ...]:
    """The ranks on the GPU that an event is about; all of the host's for its other faults; none where not known."""
    own = case.ranks.on(event.host)
    if event.pci_address is None:
        return own if event.event.kind not in _GPU_KINDS else ()
    return tuple(rank for rank in own if case.ranks.places[rank].pci_address == event.pci_address)


def _origin(case: Case, cause: Cause, causes: Sequence[Cause], *, unseen: bool) -> Finding:
    """A fault with what it led to. `unseen` says that a host whose kernel log was not read may have had one before."""
    event, scope = cause.first, Scope.of(case)
    led_to = cause.consequences
    rivals = tuple(dict.fromkeys(other.first.host for other in causes if other is not cause and cause.rivals(other)))
    told = f"; it led to {'; '.join(led_to[:_FEW_TOLD])}" if led_to else ""
    open_ = f"; by the clocks {fold_hosts(rivals)} may have been first" if rivals else ""
    tied = cause.suffered or any(event.host in finding.hosts for finding in accusations(case))
    struck = [each for each in cause.events if each.host == event.host and (_at_once(event, each) or scope.own(each))]
    hurt = [rank for each in struck for rank in ranks_of(case, each)]
    unsure = cause.hurt.pages is not True or event.at is None or not tied or rivals or scope.of_another(event) or unseen
    went_on = _went_on(case, event)
    return Finding(
        kind=fault_kind(cause.hurt),
        text=f"{event.host}: {describe(event)}{told}{open_}{went_on}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY if unsure or went_on else Grade.SURE,
        ranks=tuple(sorted(set(hurt))) or accused_on(case, event.host),
        hosts=(event.host,),
        time=event.at,
        chain=led_to,
        cites=tuple(each.cite for each in cause.events[:_FEW]),
    )


def _at_once(first: KernelEvent, other: KernelEvent) -> bool:
    """Whether an event of a host is part of its first fault: of the same GPU or of none, of a link, or as early.

    Another GPU's that comes later is something that it led to.
    """
    if other.pci_address in {None, first.pci_address} or first.pci_address is None:
        return True
    if Part.LINK in {part_of(first.event), part_of(other.event)} or first.at is None or other.at is None:
        return True
    return (other.at - first.at).total_seconds() <= _AT_ONCE_S


def _went_on(case: Case, event: KernelEvent) -> str:
    """That steps ended after an event, in words; empty where they did not, or where that is not known."""
    last = last_step(case)
    if last is None or not last.preceded_by(event):
        return ""
    return f"; steps ended for another {last.after_s(event) or 0.0:,.0f} s"


def accused_on(case: Case, host: str) -> tuple[int, ...]:
    """Ranks that earlier steps accused on this host: whose GPU it was, the address alone does not tell."""
    own = set(case.ranks.on(host))
    return tuple(
        rank
        for finding in accusations(case)
        if host in finding.hosts
        for rank in finding.ranks
        if rank in own or len(finding.hosts) == 1
    )


def _more(case: Case, causes: Sequence[Cause]) -> Iterator[Finding]:
    """Faults beyond the first few as one: what hits so many hosts is told by its spread, not one by one."""
    if not causes:
        return
    hosts = tuple(dict.fromkeys(cause.first.host for cause in causes))
    ranks = {rank for cause in causes for rank in ranks_of(case, cause.hurt)}
    yield Finding(
        kind=fault_kind(causes[0].hurt),
        text=f"{len(causes)} more faults on {fold_hosts(hosts)}, from {describe(causes[0].first)} on",
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        ranks=tuple(sorted(ranks)),
        hosts=hosts,
        time=causes[0].first.at,
        cites=tuple(cause.first.cite for cause in causes[:_FEW]),
    )


def _others(case: Case, incidents: RunIncidents, causes: Sequence[Cause], scope: Scope) -> Iterator[Finding]:
    """What began by itself elsewhere speaks against the suspects; the rest only goes with it."""
    part_of_cause = {id(event) for cause in causes for event in cause.events}
    folded = {id(cause.incident) for cause in causes if cause.incident}
    rest = [e for e in incidents.kernel.values() if id(e) not in part_of_cause and tells_of_trouble(e.event)]
    rest = [e for e in rest if (found := incidents.of(e)) is None or id(found) not in folded]
    against = [event for event in rest if event.pages and not scope.concerns(event)]
    mild = [event for event in rest if not (event.pages and not scope.concerns(event))]
    mild += [event for event in incidents.outlived if event.pages and id(event) not in part_of_cause]
    for role, events in ((Role.AGAINST, against), (Role.CONTEXT, mild)):
        for event in events[:_FEW]:
            yield Finding(
                kind="observation",
                text=f"{event.host}: {describe(event)}{_went_on(case, event)}",
                role=role,
                ranks=ranks_of(case, event) if event.pci_address else (),
                hosts=(event.host,),
                time=event.at,
                cites=(event.cite,),
            )
