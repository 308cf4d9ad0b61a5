"""Which rank runs where, as the processes' own environments and the drivers' lists of GPUs tell."""

import re
from collections.abc import Iterable, Mapping

import msgspec

from oncall.bundle.evidence import Evidence
from oncall.formats.kernel_address import gpu_address
from oncall.readings.case import Case
from oncall.readings.process_table import ProcessTable, TrainingProcess, process_table
from oncall.readings.visible_gpus import Gpus, gpus_of, local_rank_of
from oncall.run.numbers import whole
from oncall.run.ranks import Place, RankMap, rank_map


def discover_ranks(table: ProcessTable, gpus: Mapping[str, Gpus], hosts: Iterable[str]) -> RankMap:
    """The rank map that the processes' own environments tell.

    Args:
        table: the processes seen.
        gpus: host → GPU index → (UUID, PCI address), from `gpu_inventory`.
        hosts: all nodes of the run; a rank that nobody saw is placed on a host only where no other is possible.
    """
    seen = table.by_rank()
    world_size, used = table.world_size, gpus_of(seen, gpus)
    places = {rank: _place(process, gpus.get(process.host, {}), used[rank]) for rank, process in seen.items()}
    places.update(_infer(places, _spans(seen, world_size, hosts)))
    return rank_map(places.values(), world_size=world_size, source="the processes on the nodes")


def _place(process: TrainingProcess, gpus: Gpus, index: int | None) -> Place:
    known = gpus.get(index) if index is not None else None
    return Place(
        rank=process.rank,
        host=process.host,
        local_rank=local_rank_of(process),
        gpu_index=index if known else None,
        gpu_uuid=known[0] if known else None,
        pci_address=known[1] if known else None,
    )


def _spans(seen: Mapping[int, TrainingProcess], world_size: int | None, hosts: Iterable[str]) -> dict[str, range]:
    """Host → its ranks, where launchers number them node by node; a host of which nothing was seen has what is left.

    Empty where a host's own ranks are not in one run.
    """
    own: dict[str, set[range]] = {}
    for process in seen.values():
        local, width = local_rank_of(process), process.number("LOCAL_WORLD_SIZE")
        first = -1 if local is None else process.rank - local
        own.setdefault(process.host, set()).add(range(first, first + (width or 0)))
    spans = {host: span for host, told in own.items() for span in told if len(told) == 1 and span and span.start >= 0}
    if len(spans) < len(own) or world_size is None:
        return {}
    silent = [host for host in hosts if host not in own]
    left = sorted(set(range(world_size)).difference(*spans.values()))
    if len(silent) == 1 and left and left[-1] - left[0] == len(left) - 1:
        spans[silent[0]] = range(left[0], left[-1] + 1)
    return spans


def _infer(places: Mapping[int, Place], spans: Mapping[str, range]) -> dict[int, Place]:
    """Places of ranks that nobody saw; none where a rank was seen on another host than its span says."""
    inferred: dict[int, Place] = {}
    for host, span in spans.items():
        for local, rank in enumerate(span):
            if rank in inferred or (rank in places and places[rank].host != host):
                return {}
            if rank not in places:
                inferred[rank] = Place(rank=rank, host=host, local_rank=local)
    return inferred


def gpu_inventory(evidence: Evidence) -> dict[str, dict[int, tuple[str, str]]]:
    """Host → GPU index → (UUID, PCI address as `dddd:bb:dd`), from the `gpus` probe.

    The driver's files name no index; nvidia-smi and CUDA with `CUDA_DEVICE_ORDER=PCI_BUS_ID` number GPUs by address.
    """
    inventory: dict[str, dict[int, tuple[str, str]]] = {}
    for host, part in evidence.all_parts("gpus"):
        form = part.attributes.get("form")
        inventory[host] = _driver_files(part.text) if form == "proc" else _nvidia_smi(part.text)
    return inventory


def _nvidia_smi(text: str) -> dict[int, tuple[str, str]]:
    found = {}
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.split(",")]
        index = whole(cells[0])
        if len(cells) == 3 and index is not None and (address := gpu_address(cells[2])):
            found[index] = (cells[1], address)
    return found


def _driver_files(text: str) -> dict[int, tuple[str, str]]:
    uuids = re.findall(r"^GPU UUID:\s*(\S+)", text, re.MULTILINE)
    places = re.findall(r"^Bus Location:\s*(\S+)", text, re.MULTILINE)
    pairs = sorted(
        (address, uuid) for uuid, place in zip(uuids, places, strict=False) if (address := gpu_address(place))
    )
    return {index: (uuid, address) for index, (address, uuid) in enumerate(pairs)}


def settle_ranks(case: Case) -> RankMap:
    """The best rank map there is: the run's own file, with GPUs filled in, else what the nodes tell.

    Where the processes contradict the file it is of another start of the job, and only its coordinates still hold.
    """
    inventory, table = case.view("gpus", gpu_inventory) or {}, case.view("processes", process_table)
    given = case.given_ranks
    if given is not None and not (table and _contradicts(given, table)):
        seen = table.by_rank() if table else {}
        used = gpus_of(seen, inventory)
        places = [
            _with_gpu(place, inventory.get(place.host, {}), used.get(rank, place.local_rank))
            for rank, place in given.places.items()
        ]
        return rank_map(places, world_size=given.world_size, source=given.source)
    if table is None:
        return case.ranks
    evidence = case.evidence("processes")
    found = discover_ranks(table, inventory, evidence.asked if evidence else ())
    size = case.run.ranks.world_size or found.world_size
    if given is None:
        return rank_map(found.places.values(), world_size=size, source=found.source)
    places = [_with_coordinate(place, given) for place in found.places.values()]
    source = f"{found.source}, which {given.source} contradicts"
    return rank_map(places, world_size=size or given.world_size, source=source)


def _contradicts(given: RankMap, table: ProcessTable) -> bool:
    """Whether a rank is seen as another local rank than a file says, or only on other hosts."""
    hosts: dict[int, set[str]] = {}
    for process in table.processes:
        hosts.setdefault(process.rank, set()).add(process.host)
    for process in table.processes:
        place, local_rank = given.at(process.rank), process.number("LOCAL_RANK")
        if place is None:
            continue
        moved = None not in {place.local_rank, local_rank} and place.local_rank != local_rank
        if moved or place.host not in hosts[process.rank]:
            return True
    return False


def _with_coordinate(place: Place, given: RankMap) -> Place:
    known = given.at(place.rank)
    return place if known is None else msgspec.structs.replace(place, coordinate=known.coordinate)


def _with_gpu(place: Place, gpus: Gpus, used: int | None) -> Place:
    """A place with what the driver tells of its GPU: the one that the file names, else the one of index `used`."""
    if place.gpu_uuid or place.pci_address:
        named = (n for n, (uuid, address) in gpus.items() if uuid == place.gpu_uuid or address == place.pci_address)
        index = next(named, None)
    else:
        index = used if place.gpu_index is None else place.gpu_index
    known = gpus.get(index) if index is not None else None
    if known is None:
        return place
    return msgspec.structs.replace(
        place,
        gpu_index=index,
        gpu_uuid=place.gpu_uuid or known[0],
        pci_address=place.pci_address or known[1],
    )
