"""Does a host run out of memory?"""

from collections.abc import Mapping

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.measured import measure
from oncall.readings.series_join import Subject
from oncall.readings.suspected import suspected_ranks
from oncall.run.nodes import fold_hosts

_LEAST = 0.05
"""Available memory under this part of all: the kernel reclaims, and swaps where it can."""


def memory_limits(case: Case) -> Mapping[Subject, float]:
    """The available memory in bytes under which each host is short of it; without those whose size is not known."""
    return {host: _LEAST * size for host, size in measure(case, "host_memory_total", by_host=True).now.items()}


def host_memory(case: Case) -> Judgement:
    """Does a host run out of memory?

    `suspect`: under a twentieth of its memory is available. `clear`: more is. `unknown`: it is not known of a suspect's
    host, or of any host without suspects.
    """
    available = measure(case, "host_memory_available", by_host=True)
    total = measure(case, "host_memory_total", by_host=True)
    hosts = case.ranks.hosts_of(suspected_ranks(case) or case.ranks.ranks)
    parts = {who: available.now[who] / total.now[who] for who in available.now if total.now.get(who, 0.0) > 0}
    short = tuple(host for host in hosts if parts.get(host, 1.0) < _LEAST)
    if short:
        told = ", ".join(f"{host} has {parts[host]:.1%} of its memory left" for host in short[:4])
        ranks = tuple(rank for host in short for rank in case.ranks.on(host))
        cite = Citation(probe="metrics", text=available.query)
        finding = Finding(
            kind="host_memory",
            text=told,
            role=Role.ORIGIN,
            grade=Grade.LIKELY,
            ranks=ranks,
            hosts=short,
            cites=(cite,),
        )
        return Judgement(verdict="suspect", reason=told, findings=(finding,))
    lacking = available.lacks(hosts) or total.lacks(hosts)
    if lacking is not None:
        return unknown(lacking)
    if not hosts or not parts.keys() >= set(hosts):
        return unknown("which hosts the run has, or their memory, is not known")
    least = min(parts[host] for host in hosts)
    return Judgement(verdict="clear", reason=f"at least {least:.0%} left on {fold_hosts(hosts)}")
