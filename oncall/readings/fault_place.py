"""Is the faulty node in this run: does a rank run on it?"""

from collections.abc import Iterable

from oncall.readings.case import Case
from oncall.readings.finding import Judgement, unknown
from oncall.run.nodes import fold_hosts, fold_ranks


def fault_place(case: Case) -> Judgement:
    """Is the faulty host in this run?

    `in-run`: it runs a rank. `idle`: none of the faulty hosts does. `unknown`: neither processes nor the rank map tell.
    """
    hosts = tuple(dict.fromkeys(host for finding in case.origins() for host in finding.hosts))
    if not hosts:
        return unknown("no step before named a faulty host")
    on = {host: case.ranks.on(host) for host in hosts}
    if any(on.values()):
        told = "; ".join(f"{host} runs ranks {fold_ranks(ranks)}" for host, ranks in on.items() if ranks)
        return Judgement(verdict="in-run", reason=f"{told} ({case.ranks.source})")
    unseen = _unseen(case, hosts)
    if unseen:
        return unknown(f"no rank is known on {fold_hosts(hosts)}, but {fold_hosts(unseen)} did not tell its processes")
    return Judgement(verdict="idle", reason=f"no rank of this run is on {fold_hosts(hosts)} ({case.ranks.source})")


def _unseen(case: Case, hosts: Iterable[str]) -> tuple[str, ...]:
    answered = case.coverage("processes").answered
    return () if case.given_ranks is not None else tuple(host for host in hosts if host not in answered)
