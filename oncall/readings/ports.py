"""Are the InfiniBand and RoCE ports up, at their rate, and free of errors that grow?"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oncall.bundle.evidence import Evidence, Part
from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.run.nodes import fold_hosts
from oncall.run.numbers import whole

_ERRORS = frozenset(
    {
        "symbol_error",
        "link_error_recovery",
        "link_downed",
        "port_rcv_errors",
        "port_rcv_remote_physical_errors",
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


def ports(case: Case) -> Judgement:
    """Are the network ports up and at their rate, and without new errors?

    `down`: a port is down whose namesakes on other hosts are up; one that is down everywhere is not in use. `slow`: its
    rate is lower than that of its namesakes. `errors`: error counters grow between two looks. `fine`: none of these.
    `unknown`: hosts did not tell.
    """
    seen = case.view("fabric", port_set)
    if not seen:
        return unknown(f"no port was seen: {case.coverage('fabric').describe()}")
    active = {port.name for port in seen if port.state == "ACTIVE"}
    usual = _usual_rates(seen)
    down = [port for port in seen if port.name in active and port.state not in {None, "ACTIVE"}]
    slow = [p for p in seen if p.state == "ACTIVE" and p.rate_gbps is not None and p.rate_gbps < usual[p.name]]
    growing = [port for port in seen if port.grew]
    for verdict, found in (("down", down), ("slow", slow), ("errors", growing)):
        if found:
            findings = tuple(_finding(case, verdict, port, usual) for port in found[:8])
            return Judgement(verdict=verdict, reason="; ".join(f.text for f in findings[:3]), findings=findings)
    coverage, showed = case.coverage("fabric"), {port.host for port in seen}
    lacking = [host for host in coverage.asked if host not in showed or host in coverage.missing]
    if lacking:
        return unknown(
            f"{len(seen)} ports are sound, but {fold_hosts(lacking)} did not show all: {coverage.describe()}"
        )
    if not active:
        return unknown(f"none of {len(seen)} ports is up: they are not in use, or all are down")
    return Judgement(verdict="fine", reason=f"{len(active)} ports are up on all hosts and no error counter grew in 3 s")


def _ports(host: str, parts: Sequence[Part]) -> Iterator[Port]:
    looks: dict[str, dict[str, dict[str, str]]] = {}
    for part in parts:
        if part.name == "port":
            name = f"{part.attributes.get('device')}/{part.attributes.get('port')}"
            looks.setdefault(name, {})[part.attributes.get("sample", "")] = dict(_values(part.text))
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
