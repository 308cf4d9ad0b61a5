"""What each source says of a rank, one line a source: the row that an operator reads about a suspect."""

from collections.abc import Iterator

import msgspec

from oncall.readings.case import Case
from oncall.readings.fresh_dumps import all_dumps
from oncall.readings.incident_part import TROUBLE, part_of
from oncall.readings.kernel_set import kernel_set
from oncall.readings.kernel_words import describe as describe_kernel
from oncall.readings.measured import measure
from oncall.readings.process_table import process_table
from oncall.readings.stack_set import own_stacks
from oncall.readings.standings import describe as describe_stack

_KERNEL_LINES = 3
_FLIGHT_RECORDER = "flight_recorder"


class Suspect(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that an origin names, where it is, and what each source says of it (source → words)."""

    rank: int
    host: str | None
    local_rank: int | None
    gpu_index: int | None
    gpu_uuid: str | None
    coordinate: dict[str, int]
    says: dict[str, str]


def suspect(case: Case, rank: int) -> Suspect:
    """Everything known of one rank. A source that has nothing to say of it says why."""
    place = case.ranks.at(rank)
    return Suspect(
        rank=rank,
        host=place.host if place else None,
        local_rank=place.local_rank if place else None,
        gpu_index=place.gpu_index if place else None,
        gpu_uuid=place.gpu_uuid if place else None,
        coordinate=dict(place.coordinate) if place else {},
        says=dict(_says(case, rank)),
    )


def _says(case: Case, rank: int) -> Iterator[tuple[str, str]]:
    yield _FLIGHT_RECORDER, _dump(case, rank)
    yield "process", _process(case, rank)
    yield "stack", _stack(case, rank)
    yield "kernel", _kernel(case, rank)
    if case.coverage("metrics").asked:
        yield "clock", _clock(case, rank)


def _dump(case: Case, rank: int) -> str:
    for finding in case.findings:
        if rank in finding.ranks and any(cite.probe == _FLIGHT_RECORDER for cite in finding.cites):
            return finding.cites[0].text
    dumps = all_dumps(case)
    if dumps is not None and rank in dumps.dumps:
        return "its dump accuses it of nothing"
    return f"not seen: {_missing(case, _FLIGHT_RECORDER, rank)}"


def _clock(case: Case, rank: int) -> str:
    clocks = measure(case, "sm_clock")
    if rank not in clocks.now:
        return f"not seen: {clocks.lacks([rank]) or 'this site has no such series'}"
    usual = clocks.before.get(rank)
    return f"SM clock {clocks.now[rank]:,.0f} MHz" + (f", before {usual:,.0f}" if usual is not None else "")


def _process(case: Case, rank: int) -> str:
    table = case.view("processes", process_table)
    process = table.by_rank().get(rank) if table else None
    if process is not None:
        seen = "gone" if process.ended else process.state_again
        again = f", then {seen}" if seen not in {None, process.state} else ""
        return f"pid {process.pid}, state {process.state}{again}"
    return f"no process: {_missing(case, 'processes', rank)}"


def _stack(case: Case, rank: int) -> str:
    stacks = own_stacks(case)
    if stacks is not None and rank in stacks.stacks:
        return describe_stack(stacks.stacks[rank])
    if stacks is not None and rank in stacks.failures:
        return f"not taken: {stacks.failures[rank]}"
    return f"not seen: {_missing(case, 'stacks', rank)}"


def _kernel(case: Case, rank: int) -> str:
    place = case.ranks.at(rank)
    kernels = case.view("kernel", kernel_set)
    if place is None or kernels is None or place.host not in kernels.read:
        refused = kernels.refused.get(place.host) if place and kernels else None
        return f"not seen: {refused or _missing(case, 'kernel', rank)}"
    own = [
        event
        for event in kernels.events
        if event.host == place.host
        and (event.pages is not False or part_of(event.event) in TROUBLE)
        and (place.pci_address is None or event.pci_address in {None, place.pci_address})
    ]
    told = "; ".join(describe_kernel(event) for event in own[:_KERNEL_LINES])
    whose = place.pci_address is None and any(event.pci_address is not None for event in own)
    return f"{told}; which GPU is its own is not known" if whose else told or "quiet"


def _missing(case: Case, probe: str, rank: int) -> str:
    place = case.ranks.at(rank)
    if place is None:
        return "its host is not known"
    coverage = case.coverage(probe)
    if not coverage.asked:
        return "the walk did not ask"
    return coverage.missing.get(place.host, f"nothing of it on {place.host}")
