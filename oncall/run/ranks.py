"""The rank map: which host, GPU and parallel coordinate each rank is."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from oncall.errors import ConfigError
from oncall.run.nodes import fold_ranks

_PLACE_FIELDS = ("rank", "host", "local_rank", "gpu_index", "gpu_uuid", "pci_address", "port")


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where one rank runs. What is not known is None.

    `pci_address` is `dddd:bb:dd` in lower case. `port` is the rack or switch port. `coordinate` maps a parallel
    dimension to the rank's position in it: `{"tp": 3, "pp": 0, "dp": 36}`.
    """

    rank: int
    host: str
    local_rank: int | None = None
    gpu_index: int | None = None
    gpu_uuid: str | None = None
    pci_address: str | None = None
    port: str | None = None
    coordinate: dict[str, int] = {}

    @property
    def label(self) -> str:
        """`node037 gpu5`, or the host alone where the GPU is not known."""
        return self.host if self.gpu_index is None else f"{self.host} gpu{self.gpu_index}"


@dataclass(frozen=True)
class RankMap:
    """Every known rank and its place. `world_size` is None where nothing tells it; `source` says where this is from."""

    places: Mapping[int, Place] = field(default_factory=dict)
    world_size: int | None = None
    source: str = "nothing known"

    @property
    def ranks(self) -> frozenset[int]:
        """All ranks that must exist: those of the world where its size is known, else those seen."""
        seen = frozenset(self.places)
        return seen | frozenset(range(self.world_size)) if self.world_size else seen

    def at(self, rank: int) -> Place | None:
        """The rank's place, or None."""
        return self.places.get(rank)

    def label(self, rank: int) -> str:
        """`rank 293 node037 gpu5`; without the rest where the place is not known."""
        place = self.places.get(rank)
        return f"rank {rank}" if place is None else f"rank {rank} {place.label}"

    def on(self, host: str) -> tuple[int, ...]:
        """The ranks of a host, ascending."""
        return self._by_host.get(host, ())

    def hosts_of(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The hosts of some ranks, each once, in the order of the ranks."""
        return tuple(dict.fromkeys(self.places[rank].host for rank in sorted(ranks) if rank in self.places))

    def rank_of(self, host: str, local_rank: int) -> int | None:
        """The rank with this local rank on this host, or None."""
        return self._by_local.get((host, local_rank))

    @cached_property
    def _by_host(self) -> dict[str, tuple[int, ...]]:
        hosts: dict[str, list[int]] = {}
        for rank in sorted(self.places):
            hosts.setdefault(self.places[rank].host, []).append(rank)
        return {host: tuple(ranks) for host, ranks in hosts.items()}

    @cached_property
    def _by_local(self) -> dict[tuple[str, int], int]:
        return {
            (place.host, place.local_rank): rank for rank, place in self.places.items() if place.local_rank is not None
        }


def rank_map(places: Iterable[Place], *, world_size: int | None, source: str) -> RankMap:
    """A rank map of some places."""
    return RankMap({place.rank: place for place in places}, world_size, source)


def parse_rank_map(text: str, file: str, *, world_size: int | None = None) -> RankMap:
    """Read a rank map file.

    JSON is a list of objects, or an object with `ranks` and `world_size`; each row has the fields of `Place`. CSV has
    a header with those names; any other column of whole numbers (`tp`, `pp`, `dp`, `ep`, `cp`) is a coordinate.

    Raises:
        ConfigError: with every row that cannot be used, by line or position.
    """
    rows, stated = _json_rows(text, file) if text.lstrip().startswith(("[", "{")) else (_csv_rows(text), None)
    places: dict[int, Place] = {}
    problems = []
    for where, row in rows:
        try:
            place = msgspec.convert(row, Place)
        except msgspec.ValidationError as error:
            problems.append(f"{file}:{where}: {error}")
            continue
        if place.rank in places:
            problems.append(f"{file}:{where}: rank {place.rank} stands here a second time")
        places[place.rank] = place
    size = world_size or stated or (max(places) + 1 if places else None)
    if size is not None and (beyond := [rank for rank in places if rank >= size]):
        problems.append(f"{file}: ranks {fold_ranks(beyond)} are beyond the world size of {size}")
    if problems:
        raise ConfigError(problems)
    return RankMap(places, size, file)


def _json_rows(text: str, file: str) -> tuple[list[tuple[str, Any]], int | None]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError([f"{file}:{error.lineno}: {error.msg}"]) from error
    stated = data.get("world_size") if isinstance(data, dict) else None
    rows = data.get("ranks") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        raise ConfigError([f"{file}: expected a list of ranks, or an object with `ranks`"])
    return [(f"[{index}]", row) for index, row in enumerate(rows)], stated if isinstance(stated, int) else None


def _csv_rows(text: str) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    reader = csv.DictReader(io.StringIO(text))
    for cells in reader:
        row: dict[str, Any] = {"coordinate": {}}
        for name, raw in cells.items():
            if name is None or raw is None or not raw.strip():
                continue
            value: str | int = int(raw) if raw.strip().lstrip("-").isdigit() and name != "host" else raw.strip()
            target = row if name in _PLACE_FIELDS else row["coordinate"]
            target[name] = value
        rows.append((str(reader.line_num), row))
    return rows


def dump_rank_map(ranks: RankMap) -> str:
    """The map as JSON that `parse_rank_map` reads."""
    rows = [msgspec.to_builtins(ranks.places[rank]) for rank in sorted(ranks.places)]
    body = ",\n".join("  " + json.dumps(row) for row in rows)
    return f'{{"world_size": {json.dumps(ranks.world_size)}, "ranks": [\n{body}\n]}}\n'
