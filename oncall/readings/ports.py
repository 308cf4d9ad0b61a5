"""Are the InfiniBand and RoCE ports up, at their rate, and free of errors that grow?"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oncall.bundle.evidence import Evidence, Part
from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.process_table import process_table
from oncall.run.nodes import fold_hosts
from oncall.run.numbers import whole

_ERRORS = frozenset(
    {
        "symbol_error",
        "link_error_recovery",
        "link_downed",
        "port_rcv_errors",
        "port_rcv_remote_physical_errors",
        "port_rcv_switch_relay_errors",
        "port_rcv_constraint_errors",
        "port_xmit_constraint_errors",
        "port_xmit_discards",
        "local_link_integrity_errors",
        "excessive_buffer_overrun_errors",
        "local_ack_timeout_err",
        "packet_seq_err",
        "out_of_sequence",
        "out_of_buffer",
        "rnr_nak_retry_err",
        "req_cqe_error",
        "resp_cqe_error",
        "implied_nak_seq_err",
        "rx_icrc_encapsulated",
        "roce_slow_restart",
    }
)
"""Counters that stand still on a sound link (Linux, Documentation/ABI/stable/sysfs-class-infiniband; mlx5 hw_counters).

Congestion marks (np_cnp_sent, rp_cnp_handled) and waiting (port_xmit_wait) grow on sound links too.
"""


@dataclass(frozen=True, slots=True)
class Port:
    """One port: `ACTIVE`, its rate in Gb/s, and by how much each error counter grew between the two looks."""

    host: str
    name: str
    state: str | None
    rate_gbps: float | None
    grew: Mapping[str, int]


def port_set(evidence: Evidence) -> tuple[Port, ...]:
    """Read the answers of the `fabric` probe."""
    return tuple(port for host in evidence.asked for port in _ports(host, evidence.whole_parts(host)))


def without_ports(evidence: Evidence) -> tuple[str, ...]:
    """The hosts that say that they have no port at all."""
    return tuple(host for host, _ in evidence.all_parts("no-ports"))


def ports(case: Case) -> Judgement:
    """Are the network ports up and at their rate, and without new errors?

    `down`: a port is down whose namesakes on other hosts are up, or a host has no port that is up, though others have
    some or the job goes over them; a port that is down on all hosts beside one that is up is not in use. `slow`: its
    rate is lower than that of its namesakes. `errors`: error counters grow between two looks. `fine`: none of these.
    `unknown`: hosts did not tell, or have no ports.
    """
    seen = case.view("fabric", port_set)
    if not seen:
        return unknown(f"no port was seen: {case.coverage('fabric').describe()}")
    cut_off = dict(_cut_off(case, seen))
    active = {port.name for port in seen if port.state == "ACTIVE"}
    usual = _usual_rates(seen)
    down = [port for port in seen if port.name in active and port.state not in {None, "ACTIVE"}]
    slow = [p for p in seen if p.state == "ACTIVE" and p.rate_gbps is not None and p.rate_gbps < usual[p.name]]
    growing = [port for port in seen if port.grew]
    for verdict, found in (("down", down), ("slow", slow), ("errors", growing)):
        findings = [_finding(case, verdict, port, usual) for port in found if port.host not in cut_off]
        findings += cut_off.values() if verdict == "down" else ()
        if findings:
            return Judgement(
                verdict=verdict, reason="; ".join(f.text for f in findings[:3]), findings=tuple(findings[:8])
            )
    coverage, showed = case.coverage("fabric"), {port.host for port in seen}
    lacking = [host for host in coverage.asked if host not in showed or host in coverage.missing]
    if lacking:
        return unknown(
            f"{len(seen)} ports are sound, but {fold_hosts(lacking)} did not show all: {coverage.describe()}"
        )
    if not active:
        return unknown(f"none of {len(seen)} ports is up: they are not in use, or all are down")
    return Judgement(verdict="fine", reason=f"{len(active)} ports are up on all hosts and no error counter grew in 3 s")


def _cut_off(case: Case, seen: Sequence[Port]) -> Iterator[tuple[str, Finding]]:
    """Hosts without any port that is up, where others have one, or where the job has no other way to its peers."""
    up = {port.host for port in seen if port.state == "ACTIVE"}
    if not up and not _goes_over_ports(case):
        return
    of_host: dict[str, list[Port]] = {}
    for port in seen:
        of_host.setdefault(port.host, []).append(port)
    for host, own in of_host.items():
        if host not in up and all(port.state is not None for port in own):
            states = ", ".join(f"{port.name} {port.state}" for port in own)
            yield host, _of_host(case, host, f"none of its ports is up ({states})")
    if 2 * len(up) >= len(case.coverage("fabric").asked):
        for host in case.view("fabric", without_ports) or ():
            yield host, _of_host(case, host, f"it has no port, as {fold_hosts(sorted(up))} has")


def _goes_over_ports(case: Case) -> bool:
    """Whether ranks talk over InfiniBand or RoCE, as far as the number of hosts and NCCL's settings tell."""
    table = case.view("processes", process_table)
    settings = {process.variables.get("NCCL_IB_DISABLE", "0") for process in table.processes} if table else set()
    return len(case.coverage("fabric").asked) > 1 and not settings & {"1"}


def _of_host(case: Case, host: str, words: str) -> Finding:
    return Finding(
        kind="link_down",
        text=f"{host}: {words}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        ranks=case.ranks.on(host),
        hosts=(host,),
        cites=(Citation(probe="fabric", host=host, file="/sys/class/infiniband", text=words),),
    )


def _ports(host: str, parts: Sequence[Part]) -> Iterator[Port]:
    looks: dict[str, dict[str, dict[str, str]]] = {}
    for part in parts:
        sample = part.attributes.get("sample", "")
        if part.name == "port":
            name = f"{part.attributes.get('device')}/{part.attributes.get('port')}"
            looks.setdefault(name, {}).setdefault(sample, {}).update(_values(part.text))
        elif part.name == "statistic":
            for name, counters in _statistics(part.text):
                told = looks.get(name, {}).get(sample, {})
                told.update(counters | told)
    for name, samples in looks.items():
        first, last = samples.get("1", {}), samples.get("2", samples.get("1", {}))
        yield Port(
            host=host,
            name=name,
            state=last.get("state", "").partition(":")[2].strip() or None,
            rate_gbps=_rate(last.get("rate", "")),
            grew=_grown(first, last),
        )


def _values(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        name, _, value = line.removeprefix("counter ").partition(" ")
        yield name, value.strip()


def _statistics(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """`link mlx5_0/1 rx_write_requests 0 out_of_buffer 7 ...` of `rdma statistic` (iproute2) → `mlx5_0/1`, counters."""
    for line in text.split("\n"):
        words = line.split()
        if len(words) > 3 and words[0] == "link":
            yield words[1], dict(zip(words[2::2], words[3::2], strict=False))


def _grown(first: Mapping[str, str], last: Mapping[str, str]) -> dict[str, int]:
    grown = {}
    for name in sorted(_ERRORS & first.keys() & last.keys()):
        before, after = whole(first[name]), whole(last[name])
        if before is not None and after is not None and after > before:
            grown[name] = after - before
    return grown


def _rate(text: str) -> float | None:
    """`400 Gb/sec (4X NDR)` → 400."""
    try:
        return float(text.split(" ", 1)[0])
    except ValueError:
        return None


def _usual_rates(seen: Sequence[Port]) -> dict[str, float]:
    """The rate that most ports of one name have; of two as frequent the higher."""
    rates: dict[str, Counter[float]] = {}
    for port in seen:
        if port.rate_gbps is not None and port.state == "ACTIVE":
            rates.setdefault(port.name, Counter())[port.rate_gbps] += 1
    return {name: max(counts, key=lambda rate: (counts[rate], rate)) for name, counts in rates.items()}


def _finding(case: Case, verdict: str, port: Port, usual: Mapping[str, float]) -> Finding:
    words = {
        "down": f"is {port.state}, and up on other hosts",
        "slow": f"runs at {port.rate_gbps or 0:g} Gb/s, others at {usual.get(port.name, 0):g}",
        "errors": "counts errors: " + ", ".join(f"{name} +{count} in 3 s" for name, count in port.grew.items()),
    }[verdict]
    return Finding(
        kind="link_errors" if verdict == "errors" else "link_down",
        text=f"{port.host}: port {port.name} {words}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        ranks=case.ranks.on(port.host),
        hosts=(port.host,),
        cites=(Citation(probe="fabric", host=port.host, file=f"/sys/class/infiniband/{port.name}", text=words),),
    )
