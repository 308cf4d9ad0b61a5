"""What do the drivers say of their GPUs: held-down clocks, memory errors, rows to remap, links that err?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from oncall.bundle.evidence import Evidence
from oncall.flight_recorder.model import Grade
from oncall.formats.nvidia_smi import GpuHealth, read_link_errors, read_query
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.run.nodes import fold_hosts

_HELD_DOWN = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"})
"""Reasons that are faults of cooling or power. A power cap, idleness and set clocks are as wanted (NVML, nvml.h)."""
_HUNG = frozenset({"124", "137"})


@dataclass(frozen=True, slots=True)
class GpuSet:
    """GPUs of each host at the last look, what held them down at both looks, and how far each link's errors grew.

    `hung` names hosts whose driver did not answer in time, `without` those with no driver.
    """

    gpus: Mapping[str, tuple[GpuHealth, ...]]
    held_down: Mapping[tuple[str, str | None], frozenset[str]]
    links: Mapping[tuple[str, str], int]
    hung: tuple[str, ...]
    without: tuple[str, ...]


def gpu_set(evidence: Evidence) -> GpuSet:
    """Read the answers of the `gpu_health` probe."""
    gpus: dict[str, tuple[GpuHealth, ...]] = {}
    held: dict[tuple[str, str | None], frozenset[str]] = {}
    links: dict[tuple[str, str], int] = {}
    hung, without = [], []
    for host in evidence.asked:
        parts = evidence.whole_parts(host)
        looks = [found for part in parts if part.name == "query" and (found := read_query(part.data)) is not None]
        errors = [read_link_errors(part.text) for part in parts if part.name == "nvlink"]
        if any(part.name == "exit" and part.attributes.get("code") in _HUNG for part in parts):
            hung.append(host)
        elif any(part.name == "no-driver" for part in parts):
            without.append(host)
        if looks:
            gpus[host] = looks[-1]
            held.update({(host, uuid): reasons for uuid, reasons in _held(looks)})
        if len(errors) > 1:
            for (uuid, link, what), count in errors[-1].items():
                grew = count - errors[0].get((uuid, link, what), count)
                if grew > 0:
                    links[host, f"{uuid} link {link}: {what}"] = grew
    return GpuSet(gpus, held, links, tuple(hung), tuple(without))


def gpu_state(case: Case) -> Judgement:
    """What does the driver say of the GPUs, of those of the suspects' hosts where there are suspects?

    `hung`: nvidia-smi does not come back. `memory`: memory errors that ECC could not correct, rows or pages that could
    not be replaced. `remap-pending`: rows wait for a reset to be replaced. `held-down`: a thermal or power slowdown is
    active at both looks. `links`: NVLink errors grow between two looks. `fine`: none of these. `unknown`: a driver told
    nothing.
    """
    seen = case.view("gpu_health", gpu_set)
    suspects = tuple(dict.fromkeys(host for finding in case.origins() for host in finding.hosts))
    asked = suspects or case.coverage("gpu_health").asked
    findings = [finding for finding in _findings(case, seen) if set(finding[1].hosts) & set(asked)] if seen else []
    for verdict in ("hung", "memory", "remap-pending", "held-down", "links"):
        found = tuple(finding for name, finding in findings if name == verdict)
        if found:
            return Judgement(verdict=verdict, reason="; ".join(f.text for f in found[:3]), findings=found[:8])
    missing = case.coverage("gpu_health").missing
    unread = tuple(host for host in asked if seen is None or not seen.gpus.get(host) or host in missing)
    if unread or not asked:
        without = f" (no nvidia-smi on {fold_hosts(seen.without)})" if seen and seen.without else ""
        return unknown(f"the drivers of {fold_hosts(unread) or 'no host'} told nothing of their GPUs{without}")
    return Judgement(verdict="fine", reason=f"the drivers of {fold_hosts(asked)} report nothing wrong")


def _held(looks: list[tuple[GpuHealth, ...]]) -> Iterator[tuple[str | None, frozenset[str]]]:
    """What held a GPU down at every look: a moment's slowdown is none, and one look may have caught just that."""
    for gpu in looks[-1] if len(looks) > 1 else ():
        reasons = [set(other.held_down_by) for look in looks for other in look if other.uuid == gpu.uuid]
        yield gpu.uuid, frozenset(set.intersection(*reasons) & _HELD_DOWN)


def _findings(case: Case, seen: GpuSet) -> Iterator[tuple[str, Finding]]:
    for host in seen.hung:
        yield "hung", _finding(case, host, None, "nvidia-smi does not answer: a GPU or its driver hangs")
    for host, gpus in seen.gpus.items():
        for gpu in gpus:
            if gpu.uncorrected:
                yield "memory", _finding(case, host, gpu, f"{gpu.uncorrected} memory errors that ECC could not correct")
            if gpu.remap_failed:
                yield "memory", _finding(case, host, gpu, "a faulty memory row could not be remapped")
            if gpu.remap_pending:
                yield "remap-pending", _finding(case, host, gpu, "a faulty memory row waits for a reset to be remapped")
            reasons = seen.held_down.get((host, gpu.uuid), frozenset())
            if reasons:
                clock = f" at {gpu.sm_clock_mhz} of {gpu.max_sm_clock_mhz} MHz" if gpu.sm_clock_mhz is not None else ""
                heat = f", {gpu.temperature_c} °C" if gpu.temperature_c is not None else ""
                words = f"held down{clock} by {', '.join(sorted(reasons))}{heat}"
                yield "held-down", _finding(case, host, gpu, words, "gpu_throttled")
    for (host, link), grew in seen.links.items():
        yield "links", _finding(case, host, None, f"{link} errors +{grew} in 3 s", "link_errors")


def _finding(case: Case, host: str, gpu: GpuHealth | None, words: str, kind: str = "gpu_degraded") -> Finding:
    own = case.ranks.on(host)
    if gpu is not None and gpu.pci_address is not None:
        own = tuple(rank for rank in own if case.ranks.places[rank].pci_address == gpu.pci_address)
    where = f" GPU {gpu.pci_address or gpu.uuid}" if gpu is not None else ""
    return Finding(
        kind=kind,
        text=f"{host}{where}: {words}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        ranks=own,
        hosts=(host,),
        cites=(Citation(probe="gpu_health", host=host, text=words),),
    )
