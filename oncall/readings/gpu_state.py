"""What do the drivers say of their GPUs: held-down clocks, memory errors, rows to remap, links that err?"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from oncall.bundle.evidence import Evidence, Part
from oncall.flight_recorder.model import Grade
from oncall.formats.kernel_address import gpu_address
from oncall.formats.nvidia_smi import GpuHealth, read_link_errors, read_query
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.run.nodes import fold_hosts

_HELD_DOWN = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"})
"""Reasons that are faults of cooling or power. A power cap, idleness and set clocks are as wanted (NVML, nvml.h)."""
_HUNG = frozenset({"124", "137"})
_BROKEN = {
    "8": "the power cables of a GPU are not attached",
    "10": "the kernel has a problem with the interrupts of a GPU",
    "15": "a GPU has fallen off the bus or cannot be reached",
}
"""Exit codes of nvidia-smi that tell of a broken GPU (nvidia-smi(1), RETURN VALUE)."""
_LOST = re.compile(r"[^\n]*(?:GPU is lost|fallen off the bus|Unable to determine the device handle for GPU)[^\n]*")
_ADDRESS = re.compile(r"GPU ?(?P<address>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_STOPS = frozenset({"hung", "memory", "links"})
_VERDICTS = ("hung", "memory", "remap-pending", "held-down", "links")


@dataclass(frozen=True, slots=True)
class GpuSet:
    """GPUs of each host at the last look, what held them down at both looks, and how far each link's errors grew.

    `hung` maps hosts whose driver did not answer in time, or told of a GPU that it cannot reach, to what it said.
    `without` are those with no driver, `silent` maps others that told of no GPU to why.
    """

    gpus: Mapping[str, tuple[GpuHealth, ...]]
    held_down: Mapping[tuple[str, str | None], frozenset[str]]
    links: Mapping[tuple[str, str], int]
    hung: Mapping[str, str]
    without: tuple[str, ...]
    silent: Mapping[str, str]


def gpu_set(evidence: Evidence) -> GpuSet:
    """Read the answers of the `gpu_health` probe."""
    gpus: dict[str, tuple[GpuHealth, ...]] = {}
    held: dict[tuple[str, str | None], frozenset[str]] = {}
    links: dict[tuple[str, str], int] = {}
    hung, silent, without = dict[str, str](), dict[str, str](), []
    for host in evidence.asked:
        parts = evidence.whole_parts(host)
        looks, spoken = _looks(parts)
        broken = _broken(parts, spoken)
        if broken is not None:
            hung[host] = broken
        elif any(part.name == "no-driver" for part in parts):
            without.append(host)
        if looks:
            gpus[host] = looks[-1]
            held.update({(host, uuid): reasons for uuid, reasons in _held(looks)})
        elif (told := _complaint(spoken)) is not None:
            silent[host] = told
        links.update({(host, link): grew for link, grew in _grown_links(parts)})
    return GpuSet(gpus, held, links, hung, tuple(without), silent)


def gpu_state(case: Case) -> Judgement:
    """What does the driver say of the GPUs, of those of the suspects' hosts where there are suspects?

    `hung`: nvidia-smi does not come back, or has lost a GPU. `memory`: memory errors that ECC could not correct, rows
    or pages that could not be replaced. `remap-pending`: rows wait for a reset to be replaced. `held-down`: a thermal
    or power slowdown is active at both looks. `links`: NVLink errors grow between two looks. `fine`: none of these.
    `unknown`: a driver told nothing.
    """
    findings = _of_asked(case)
    for verdict in _VERDICTS:
        found = tuple(finding for name, finding in findings if name == verdict)
        if found:
            return Judgement(verdict=verdict, reason="; ".join(f.text for f in found[:3]), findings=found[:8])
    return _unread(case) or Judgement(
        verdict="fine", reason=f"the drivers of {fold_hosts(_asked(case))} report nothing wrong"
    )


def gpu_faults(case: Case) -> Judgement:
    """Does a driver report what can stop a GPU for good, where nothing else tells why all wait?

    `fault`: nvidia-smi does not come back or has lost a GPU, memory is lost, NVLink errors grow. `none`: nothing but
    what slows a GPU down, or waits for a reset. `unknown`: a driver told nothing.
    """
    told = _of_asked(case)
    stops = tuple(finding for name, finding in told if name in _STOPS)[:8]
    others = tuple(structs.replace(finding, role=Role.CONTEXT) for name, finding in told if name not in _STOPS)[:8]
    if stops:
        return Judgement(verdict="fault", reason="; ".join(f.text for f in stops[:3]), findings=(*stops, *others))
    missing = _unread(case)
    if missing is not None:
        return unknown(missing.reason, others)
    return Judgement(
        verdict="none", reason=f"no driver of {fold_hosts(_asked(case))} tells of a lost GPU or memory", findings=others
    )


def _asked(case: Case) -> tuple[str, ...]:
    suspects = tuple(dict.fromkeys(host for finding in case.origins() for host in finding.hosts))
    return suspects or case.coverage("gpu_health").asked


def _of_asked(case: Case) -> list[tuple[str, Finding]]:
    seen, asked = case.view("gpu_health", gpu_set), set(_asked(case))
    return [finding for finding in _findings(case, seen) if asked & set(finding[1].hosts)] if seen else []


def _unread(case: Case) -> Judgement | None:
    """Whose drivers told nothing, and as far as known why; None where all told."""
    seen, asked, missing = case.view("gpu_health", gpu_set), _asked(case), case.coverage("gpu_health").missing
    unread = tuple(host for host in asked if seen is None or not seen.gpus.get(host) or host in missing)
    if asked and not unread:
        return None
    without = f" (no nvidia-smi on {fold_hosts(seen.without)})" if seen and seen.without else ""
    why = next((f" ({host}: {seen.silent[host]})" for host in unread if seen and host in seen.silent), "")
    return unknown(f"the drivers of {fold_hosts(unread) or 'no host'} told nothing of their GPUs{without}{why}")


def _looks(parts: Sequence[Part]) -> tuple[list[tuple[GpuHealth, ...]], list[str]]:
    """The reports of the looks, and what else was said: standard error, and standard output where it is no report."""
    looks: list[tuple[GpuHealth, ...]] = []
    spoken: list[str] = []
    for part in parts:
        report = read_query(part.data) if part.name == "query" else None
        if report is not None:
            looks.append(report)
        elif part.name in {"query", "exit"}:
            spoken.append(part.text)
    return looks, spoken


def _broken(parts: Sequence[Part], spoken: Iterable[str]) -> str | None:
    """What a driver that hangs, or that has lost a GPU, says or lets be known by its exit code."""
    codes = [part.attributes.get("code", "") for part in parts if part.name == "exit"]
    if _HUNG & set(codes):
        return "nvidia-smi does not answer: a GPU or its driver hangs"
    lost = next((found[0] for text in spoken if (found := _LOST.search(text))), None)
    told = lost or next((_BROKEN[code] for code in codes if code in _BROKEN), None)
    return None if told is None else f"nvidia-smi: {' '.join(told.split())[:300]}"


def _complaint(spoken: Iterable[str]) -> str | None:
    """The first line that nvidia-smi said in place of its report."""
    lines = (line.strip() for text in spoken for line in text.split("\n"))
    return next((f"nvidia-smi: {line[:200]}" for line in lines if line), None)


def _grown_links(parts: Sequence[Part]) -> Iterator[tuple[str, int]]:
    errors = [read_link_errors(part.text) for part in parts if part.name == "nvlink"]
    for (uuid, link, what), count in errors[-1].items() if len(errors) > 1 else ():
        grew = count - errors[0].get((uuid, link, what), count)
        if grew > 0:
            yield f"{uuid} link {link}: {what}", grew


def _held(looks: list[tuple[GpuHealth, ...]]) -> Iterator[tuple[str | None, frozenset[str]]]:
    """What held a GPU down at every look: a moment's slowdown is none, and one look may have caught just that."""
    for gpu in looks[-1] if len(looks) > 1 else ():
        reasons = [set(other.held_down_by) for look in looks for other in look if other.uuid == gpu.uuid]
        yield gpu.uuid, frozenset(set.intersection(*reasons) & _HELD_DOWN)


def _findings(case: Case, seen: GpuSet) -> Iterator[tuple[str, Finding]]:
    for host, words in seen.hung.items():
        named = _ADDRESS.search(words)
        yield "hung", _finding(case, host, gpu_address(named["address"]) if named else None, words)
    for host, gpus in seen.gpus.items():
        for gpu in gpus:
            for verdict, kind, words in _needs(gpu, seen.held_down.get((host, gpu.uuid), frozenset())):
                yield verdict, _finding(case, host, gpu.pci_address or gpu.uuid, words, kind)
    for (host, link), grew in seen.links.items():
        yield "links", _finding(case, host, None, f"{link} errors +{grew} in 3 s", "link_errors")


def _needs(gpu: GpuHealth, held_down_by: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Verdict, kind and words for each thing that is wrong with a GPU."""
    if gpu.uncorrected:
        yield "memory", "gpu_degraded", f"{gpu.uncorrected} memory errors that ECC could not correct"
    if gpu.remap_failed:
        yield "memory", "gpu_degraded", "a faulty memory row could not be remapped"
    if gpu.remap_pending:
        yield "remap-pending", "gpu_degraded", "a faulty memory row waits for a reset to be remapped"
    if held_down_by:
        clock = f" at {gpu.sm_clock_mhz} of {gpu.max_sm_clock_mhz} MHz" if gpu.sm_clock_mhz is not None else ""
        heat = f", {gpu.temperature_c} °C" if gpu.temperature_c is not None else ""
        yield "held-down", "gpu_throttled", f"held down{clock} by {', '.join(sorted(held_down_by))}{heat}"


def _finding(case: Case, host: str, gpu: str | None, words: str, kind: str = "gpu_degraded") -> Finding:
    """`gpu` is its address, else its UUID; None where it is not known which one it is."""
    own = case.ranks.on(host)
    if gpu is not None:
        places = case.ranks.places
        own = tuple(r for r in own if gpu in {places[r].pci_address, places[r].gpu_uuid})
    where = f" GPU {gpu}" if gpu is not None else ""
    return Finding(
        kind=kind,
        text=f"{host}{where}: {words}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY,
        ranks=own,
        hosts=(host,),
        cites=(Citation(probe="gpu_health", host=host, text=words),),
    )
