"""Who issues last, where no durations are recorded, beyond what the clocks of hosts allow."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from oncall.flight_recorder.alike import Part
from oncall.flight_recorder.groups import Groups
from oncall.flight_recorder.model import RankDump

CLOCK_TOLERANCE_MS = 1.0
"""What clocks of one site may differ by under NTP; issue times closer than this are not put in order."""

_FEWEST = 4
_CONSTANT_SHARE = 0.5

Lateness = Mapping[int, Mapping[int, float]]
"""Sequence number → rank → milliseconds after the middle one of its peers."""


def issue_times(
    dumps: Mapping[int, RankDump], groups: Groups, parts: Sequence[Part]
) -> dict[Part, dict[int, dict[int, float]]]:
    """How much earlier than the last one each rank issued, so that the last one has the smallest value.

    A rank's smallest lateness is taken off, and with it what its clock is ahead. The ranks of one host have one clock,
    so that among them it stays.
    """
    issued = _issued(dumps, groups)
    times: dict[Part, dict[int, dict[int, float]]] = {}
    for part in parts:
        late = _lateness(part, issued[part.group])
        times[part] = _beyond_clocks(late, _smallest(late))
    for part in parts:
        for own in _by_host(part, dumps):
            times[own] = _beyond_clocks(_lateness(own, issued[part.group]), {})
    return times


def constantly_late(dumps: Mapping[int, RankDump], groups: Groups, parts: Sequence[Part]) -> dict[int, float]:
    """The one rank of each part that is late by about the same every time, with its milliseconds, longest first."""
    issued = _issued(dumps, groups)
    found: dict[int, float] = {}
    for part in parts:
        late = _lateness(part, issued[part.group])
        smallest = _smallest(late) if len(late) >= _FEWEST else {}
        beyond = {rank: ms for rank, ms in smallest.items() if ms > CLOCK_TOLERANCE_MS and _stands_out(rank, smallest)}
        if len(beyond) == 1:
            found |= beyond
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def _stands_out(rank: int, smallest: Mapping[int, float]) -> bool:
    return all(ms < _CONSTANT_SHARE * smallest[rank] for other, ms in smallest.items() if other != rank)


def _issued(dumps: Mapping[int, RankDump], groups: Groups) -> dict[int, dict[int, dict[int, float]]]:
    issued: dict[int, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for rank, dump in dumps.items():
        for op in dump.ops:
            if op.peers is None and op.created_ns is not None:
                issued[groups.of[rank][op.group]][op.seq][rank] = op.created_ns / 1e6
    return issued


def _lateness(part: Part, issued: Mapping[int, Mapping[int, float]]) -> dict[int, dict[int, float]]:
    members = set(part.ranks)
    late = {}
    for seq, ranks in issued.items():
        if members <= ranks.keys():
            middle = median(ranks[rank] for rank in part.ranks)
            late[seq] = {rank: ranks[rank] - middle for rank in part.ranks}
    return late


def _smallest(late: Lateness) -> dict[int, float]:
    smallest: dict[int, float] = {}
    for ranks in late.values():
        for rank, ms in ranks.items():
            smallest[rank] = min(ms, smallest.get(rank, ms))
    return smallest


def _beyond_clocks(late: Lateness, ahead: Mapping[int, float]) -> dict[int, dict[int, float]]:
    return {
        seq: {rank: -_beyond_tolerance(ms - ahead.get(rank, 0.0)) for rank, ms in ranks.items()}
        for seq, ranks in late.items()
    }


def _beyond_tolerance(late: float) -> float:
    return late if late > CLOCK_TOLERANCE_MS else 0.0


def _by_host(part: Part, dumps: Mapping[int, RankDump]) -> Iterator[Part]:
    """The ranks of each host, where the folders of the dumps tell: a single one for all dumps is no host's."""
    if len({dump.host for dump in dumps.values()}) < 2:
        return
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank in part.ranks:
        host = dumps[rank].host if rank in dumps else None
        if host is not None:
            by_host[host].append(rank)
    yield from (part._replace(ranks=tuple(ranks)) for ranks in by_host.values() if len(ranks) > 1)
