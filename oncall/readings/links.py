"""Do the errors of a suspect's NVLink, PCIe or InfiniBand links grow?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from oncall.flight_recorder.model import Grade
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.measured import Measured, measure, typical
from oncall.readings.series_join import Subject
from oncall.readings.suspected import suspected_ranks
from oncall.signals.hardware_signals import GPU_LINK_COUNTERS, PORT_COUNTERS

_ACTIVE = 4.0
_MOST_NAMED = 8

WORDS = {
    "nvlink_crc_flit": "NVLink flit CRC errors",
    "nvlink_crc_data": "NVLink data CRC errors",
    "nvlink_replay": "NVLink replays",
    "nvlink_recovery": "NVLink recoveries",
    "pcie_replay": "PCIe replays",
    "ib_link_downed": "InfiniBand link losses",
    "ib_link_recovery": "InfiniBand link recoveries",
    "ib_receive_errors": "InfiniBand packets received with an error",
    "ib_transmit_discards": "InfiniBand packets discarded",
}


@dataclass(frozen=True)
class _Fault:
    subject: Subject
    text: str
    query: str
    growing: bool


def links(case: Case) -> Judgement:
    """Do errors of links grow, those of the suspects where there are suspects?

    `suspect`: a counter grows by more than twice what it grew by in a stretch of the same length before. `clear`: none
    does. `unknown`: a counter of a suspect's links is not known.
    """
    ranks = suspected_ranks(case) or case.ranks.ranks
    hosts = case.ranks.hosts_of(ranks)
    if not ranks or not hosts:
        return unknown("which ranks run on which hosts is not known")
    faults = list(_faults(case, ranks, hosts))
    if faults:
        findings = tuple(_findings(case, faults, suspected_ranks(case)))
        shown = "; ".join(finding.text for finding in findings[:_MOST_NAMED])
        return Judgement(verdict="suspect", reason=shown, findings=findings)
    lacking = [told for measured, who in _asked(case, ranks, hosts) if (told := measured.lacks(who))]
    if lacking:
        more = f"; and {len(lacking) - 1} more counters" if len(lacking) > 1 else ""
        return unknown(f"no errors where they are counted; {lacking[0]}{more}")
    return Judgement(verdict="clear", reason=f"no link errors: {case.name_ranks(ranks)}")


def link_counters(case: Case) -> list[Measured]:
    """The counters of link errors that are looked at, by rank or by host."""
    ranks = case.ranks.ranks
    asked = _asked(case, ranks, case.ranks.hosts_of(ranks))
    return [measured for measured, _ in asked if measured.signal in WORDS]


def _asked(case: Case, ranks: Iterable[int], hosts: Iterable[str]) -> Iterator[tuple[Measured, tuple[Subject, ...]]]:
    """Each counter that this site has, with those it has to speak for. A run on one host uses no InfiniBand."""
    for signal in GPU_LINK_COUNTERS:
        yield measure(case, signal, several=sum), tuple(sorted(ranks))
    if len(case.ranks.hosts_of(case.ranks.ranks)) > 1:
        for signal in PORT_COUNTERS:
            yield measure(case, signal, by_host=True, several=sum), tuple(hosts)
        for signal in ("ib_state", "ib_rate"):
            yield measure(case, signal, by_host=True, several=min), tuple(hosts)


def _faults(case: Case, ranks: Iterable[int], hosts: Iterable[str]) -> Iterator[_Fault]:
    factor = case.run.thresholds.growth_factor
    for measured, wanted in _asked(case, ranks, hosts):
        usual = typical(measured.before) or typical(measured.now)
        for who in wanted:
            value = measured.now.get(who)
            if value is None:
                continue
            if measured.signal in WORDS:
                grew_before = measured.before.get(who)
                if value > factor * (grew_before or 0.0) and round(value) >= 1:
                    was = "not known" if grew_before is None else f"{grew_before:,.0f}"
                    text = f"{value:,.0f} {WORDS[measured.signal]} in {case.run.prometheus.window}, before {was}"
                    yield _Fault(who, text, measured.query, growing=grew_before is not None)
            elif measured.signal == "ib_state" and value != _ACTIVE:
                yield _Fault(who, f"an InfiniBand port is not active (state {value:.0f})", measured.query, growing=True)
            elif measured.signal == "ib_rate" and usual is not None and value < usual:
                text = f"an InfiniBand port runs at {value * 8 / 1e9:.0f} Gbit/s, usual are {usual * 8 / 1e9:.0f}"
                yield _Fault(who, text, measured.query, growing=True)


def _findings(case: Case, faults: list[_Fault], suspects: frozenset[int]) -> Iterator[Finding]:
    by_subject: dict[Subject, list[_Fault]] = {}
    for fault in faults:
        by_subject.setdefault(fault.subject, []).append(fault)
    for who, own in by_subject.items():
        on_host = case.ranks.on(who) if isinstance(who, str) else (who,)
        ranks = tuple(rank for rank in on_host if not suspects or rank in suspects)
        where = who if isinstance(who, str) else case.name_ranks([who])
        yield Finding(
            kind="link_errors",
            text=f"{where}: {', '.join(fault.text for fault in own)}",
            role=Role.ORIGIN,
            grade=Grade.SURE if suspects and all(fault.growing for fault in own) else Grade.LIKELY,
            ranks=ranks,
            hosts=case.ranks.hosts_of(ranks),
            cites=tuple(Citation(probe="metrics", text=fault.query) for fault in own),
        )
