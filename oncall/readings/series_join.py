"""Whom a series is about: rank, GPU or host, by whatever labels the site's exporters give it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncall.readings.case import Case
from oncall.readings.metric_set import Labels
from oncall.run.model import Join
from oncall.run.nodes import expand_hosts

Subject = int | str
"""A rank, or a host by name."""

_MOST_LABELS = 8
_SCRAPED = frozenset({"instance", "exported_instance", "pod", "exported_pod"})
"""Labels that name what was scraped: an exporter may tell of ranks of other hosts."""


@dataclass(frozen=True)
class Joiner:
    """Finds ranks and hosts of a run by labels. `hosts` maps every name that a host goes by, in lower case, to it.

    `places` maps a rank to its host.
    """

    labels: Join
    ranks: frozenset[int]
    places: Mapping[int, str]
    hosts: Mapping[str, str]
    by_gpu: Mapping[tuple[str, int], tuple[int, ...]]
    by_uuid: Mapping[str, tuple[int, ...]]

    def host(self, labels: Labels) -> str | None:
        """The run's host that a series is about; None where no label names one."""
        return self._first_host(labels, self.labels.host)

    def host_beside_rank(self, labels: Labels) -> str | None:
        """The run's host that a series names besides a rank, where that is not only where it was scraped."""
        if _number(labels, self.labels.rank) is None:
            return None
        return self._first_host(labels, (name for name in self.labels.host if name not in _SCRAPED))

    def runs_elsewhere(self, labels: Labels, host: str) -> bool:
        """Whether the rank that a series names is known to run on another host than this."""
        rank = _number(labels, self.labels.rank)
        return rank is not None and self.places.get(rank, host) != host

    def gpu(self, labels: Labels) -> int | None:
        """The index of the GPU that a series is about; None where no label tells it."""
        return _number(labels, self.labels.gpu)

    def ranks_of(self, labels: Labels) -> tuple[int, ...]:
        """The ranks that a series is about: by rank, by the GPU's UUID, by host and GPU index."""
        rank = _number(labels, self.labels.rank)
        if rank is not None:
            return (rank,) if not self.ranks or rank in self.ranks else ()
        for name in self.labels.uuid:
            if found := self.by_uuid.get(labels.get(name, "")):
                return found
        gpu = self.gpu(labels)
        host = None if gpu is None else self.host(labels)
        return () if host is None or gpu is None else self.by_gpu.get((host, gpu), ())

    def _first_host(self, labels: Labels, names: Iterable[str]) -> str | None:
        told = (labels.get(name) for name in names)
        return next((host for value in told if value and (host := self._host(value))), None)

    def _host(self, value: str) -> str | None:
        """By the whole value, without a port, and without a domain: `node001.example.com:9400`."""
        plain = value.lower()
        bare = plain.rpartition(":")[0] if ":" in plain else plain
        return self.hosts.get(plain) or self.hosts.get(bare) or self.hosts.get(bare.partition(".")[0])


def _number(labels: Labels, names: tuple[str, ...]) -> int | None:
    for name in names:
        value = labels.get(name)
        if value and value.isdecimal():
            return int(value)
    return None


def joiner(case: Case) -> Joiner:
    """The joiner of a case's rank map and run file."""
    hosts = dict.fromkeys((*expand_hosts(case.run.nodes), *(place.host for place in case.ranks.places.values())))
    names = {name: host for host in hosts for name in (host.lower().partition(".")[0], host.lower())}
    names |= {address.lower(): host for host, address in case.run.reach.addresses.items()}
    by_gpu: dict[tuple[str, int], tuple[int, ...]] = {}
    by_uuid: dict[str, tuple[int, ...]] = {}
    for rank, place in sorted(case.ranks.places.items()):
        index = place.gpu_index if place.gpu_index is not None else place.local_rank
        if index is not None:
            by_gpu[place.host, index] = (*by_gpu.get((place.host, index), ()), rank)
        if place.gpu_uuid is not None:
            by_uuid[place.gpu_uuid] = (*by_uuid.get(place.gpu_uuid, ()), rank)
    places = {rank: place.host for rank, place in case.ranks.places.items()}
    return Joiner(case.run.prometheus.join, case.ranks.ranks, places, names, by_gpu, by_uuid)


def labels_seen(curves: Iterable[Labels]) -> str:
    """`Hostname="gpu-7", gpu="0", …` of the first series, for an operator to see why it names nobody."""
    first = next(iter(curves), {})
    shown = [f'{name}="{value}"' for name, value in first.items() if name != "__name__"]
    more = ", …" if len(shown) > _MOST_LABELS else ""
    return ", ".join(shown[:_MOST_LABELS]) + more if shown else "no labels"
