"""The rank map: which host, GPU and parallel coordinate each rank is."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import msgspec

from oncall.errors import ConfigError
from oncall.run.nodes import MOST_RANKS, fold_ranks
from oncall.run.numbers import whole

_TEXTS = frozenset({"host", "gpu_uuid", "pci_address", "port"})
_MOST_TOLD = 20
"""Of the mistakes in a file: one slip of a column spoils every row."""
_FORMS = 'a rank map is CSV with the columns rank, host, ..., or JSON: {"ranks": [{"rank": 0, "host": "node001"}]}'
_PLACE_FIELDS = ("rank", "host", "local_rank", "gpu_index", "gpu_uuid", "pci_address", "port")


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where one rank runs. What is not known is None.

    `pci_address` is `dddd:bb:dd` in lower case. `port` is the rack or switch port. `coordinate` maps a parallel
    dimension to the rank's position in it: `{"tp": 3, "pp": 0, "dp": 36}`.
    """

    rank: Annotated[int, msgspec.Meta(ge=0, lt=MOST_RANKS)]
    host: Annotated[str, msgspec.Meta(min_length=1)]
    local_rank: Annotated[int, msgspec.Meta(ge=0)] | None = None
    gpu_index: Annotated[int, msgspec.Meta(ge=0)] | None = None
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
        ConfigError: with the rows that cannot be used, by line or position, the first ones where they are many.
    """
    is_json = text.lstrip("\ufeff \t\r\n").startswith(("[", "{"))
    rows, stated = (
        _json_rows(text.lstrip("\ufeff"), file) if is_json else (_csv_rows(text.lstrip("\ufeff"), file), None)
    )
    places: dict[int, Place] = {}
    problems = []
    slots: dict[tuple[str, int | None], int] = {}
    for where, row in rows:
        try:
            place = msgspec.convert(row, Place)
        except msgspec.ValidationError as error:
            problems.append(f"{file}:{where}: {error}")
            continue
        if place.rank in places:
            problems.append(f"{file}:{where}: rank {place.rank} stands here a second time")
        other = slots.setdefault((place.host, place.local_rank), place.rank)
        if place.local_rank is not None and other != place.rank:
            problems.append(f"{file}:{where}: rank {other}, too, is local rank {place.local_rank} of {place.host}")
        places[place.rank] = place
    if not places and not problems:
        problems.append(f"{file}: names no rank")
    size = world_size or stated or (max(places) + 1 if places else None)
    if size is not None and (beyond := [rank for rank in places if rank >= size]):
        problems.append(f"{file}: ranks {fold_ranks(beyond)} are beyond the world size of {size}")
    if problems:
        more = len(problems) - _MOST_TOLD
        raise ConfigError(problems[:_MOST_TOLD] + ([f"{file}: {more:,} more mistakes"] if more > 0 else []), _FORMS)
    return RankMap(places, size, file)


def _json_rows(text: str, file: str) -> tuple[list[tuple[str, Any]], int | None]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError([f"{file}:{error.lineno}: {error.msg}"], _FORMS) from error
    except (RecursionError, ValueError) as error:  # nested without end; a number of thousands of digits
        raise ConfigError([f"{file}: {error}"], _FORMS) from error
    stated = data.get("world_size") if isinstance(data, dict) else None
    rows = data.get("ranks") if isinstance(data, dict) else data
    if not isinstance(rows, list):
        raise ConfigError([f"{file}: expected a list of ranks, or an object with `ranks`"], _FORMS)
    if stated is not None and not (type(stated) is int and 0 < stated <= MOST_RANKS):
        raise ConfigError([f"{file}: world_size: expected a number from 1 to {MOST_RANKS:,}"], _FORMS)
    return [(f"[{index}]", row) for index, row in enumerate(rows)], stated


def _csv_rows(text: str, file: str) -> list[tuple[str, Any]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        missing = [name for name in ("rank", "host") if name not in (reader.fieldnames or ())]
        if missing:
            raise ConfigError([f"{file}:1: the header names no column `{'`, `'.join(missing)}`"], _FORMS)
        return [(str(reader.line_num), _csv_row(cells, f"{file}:{reader.line_num}")) for cells in reader]
    except csv.Error as error:
        raise ConfigError([f"{file}:{reader.line_num}: {error}"], _FORMS) from error


def _csv_row(cells: Mapping[str | None, str | list[str] | None], where: str) -> dict[str, Any]:
    coordinate: dict[str, int | str] = {}
    row: dict[str, Any] = {"coordinate": coordinate}
    for name, raw in cells.items():
        if name is None:
            raise ConfigError([f"{where}: more cells than the header has columns"], _FORMS)
        text = raw.strip() if isinstance(raw, str) else ""
        if not text:
            continue
        number = None if name in _TEXTS else whole(text)
        target = row if name in _PLACE_FIELDS else coordinate
        target[name] = text if number is None else number
    return row


def dump_rank_map(ranks: RankMap) -> str:
    """The map as JSON that `parse_rank_map` reads."""
    rows = [msgspec.to_builtins(ranks.places[rank]) for rank in sorted(ranks.places)]
    body = ",\n".join("  " + json.dumps(row) for row in rows)
    return f'{{"world_size": {json.dumps(ranks.world_size)}, "ranks": [\n{body}\n]}}\n'
