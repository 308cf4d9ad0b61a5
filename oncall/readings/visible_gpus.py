"""Which of its host's GPUs does a rank use, by what CUDA lets it see?

CUDA_VISIBLE_DEVICES lists indices, UUIDs or beginnings of UUIDs that fit one GPU, or MIG devices; what stands behind an
entry that fits none is not seen (CUDA C++ programming guide, 12.8, "CUDA environment variables").
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from oncall.readings.process_table import TrainingProcess
from oncall.run.numbers import whole

Gpus = Mapping[int, tuple[str, str]]
"""GPU index → (UUID, PCI address)."""

_LIST = "CUDA_VISIBLE_DEVICES"
_MIG_OF_GPU = re.compile(r"MIG-(?P<gpu>GPU-[0-9a-f-]+)/\d+/\d+", re.IGNORECASE)
"""A MIG device as the drivers before R470 name it, by its GPU; later ones give it a UUID of its own."""


def local_rank_of(process: TrainingProcess) -> int | None:
    """A rank's number on its node, as its launcher told it."""
    told = process.number("LOCAL_RANK")
    return process.number("SLURM_LOCALID") if told is None else told


def gpus_of(seen: Mapping[int, TrainingProcess], gpus: Mapping[str, Gpus]) -> dict[int, int | None]:
    """Rank → index of its GPU among those of its host; None where what it sees does not tell.

    Where several ranks of a host see just one GPU of the same index, the indices count from their own containers.
    """
    alone = Counter(
        (process.host, listed) for process in seen.values() if whole(listed := process.variables.get(_LIST)) is not None
    )
    used = {rank: _gpu_of(process, gpus.get(process.host, {})) for rank, process in seen.items()}
    for rank, process in seen.items():
        if alone[process.host, process.variables.get(_LIST)] > 1:
            used[rank] = None
    return used


def _gpu_of(process: TrainingProcess, gpus: Gpus) -> int | None:
    listed, local_rank = process.variables.get(_LIST), local_rank_of(process)
    if listed is None:
        return local_rank if local_rank in gpus else None
    visible = list(_visible(listed, gpus))
    if len(visible) == 1:
        return visible[0]
    return visible[local_rank] if local_rank is not None and local_rank < len(visible) else None


def _visible(listed: str, gpus: Gpus) -> Iterator[int | None]:
    """The index of each device that CUDA shows, None for a MIG device of a GPU that is not known."""
    for word in (word.strip() for word in listed.split(",")):
        if word.upper().startswith("MIG-"):
            parent = _MIG_OF_GPU.fullmatch(word)
            yield _by_uuid(parent["gpu"], gpus) if parent else None
            continue
        index = whole(word) if whole(word) is not None else _by_uuid(word, gpus)
        if index not in gpus:
            return
        yield index


def _by_uuid(word: str, gpus: Gpus) -> int | None:
    """The one GPU whose UUID begins so."""
    own = [index for index, (uuid, _) in gpus.items() if uuid.lower().startswith(word.lower())]
    return own[0] if len(own) == 1 and word.upper().startswith("GPU-") else None
