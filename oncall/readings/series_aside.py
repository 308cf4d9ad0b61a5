"""What Prometheus told that is not counted, for or against anybody, and why."""

from collections.abc import Iterator, Mapping

from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding
from oncall.readings.measured import Measured, measure
from oncall.readings.metric_set import metric_set
from oncall.readings.placement import gpu_inventory
from oncall.readings.series_join import Subject, joiner
from oncall.run.nodes import fold_hosts
from oncall.signals.signal import Source
from oncall.signals.vocabulary import SIGNALS

_MOST = 8


def series_aside(case: Case) -> tuple[Finding, ...]:
    """A finding for each signal of which series were set aside, the first few signals."""
    asked = [name for name in case.view("metrics", metric_set) or {} if name in SIGNALS]
    told = (found for name in sorted(asked) for found in (*_disbelieved(case, name), *_beyond(case, name)))
    return tuple(found for found, _ in zip(told, range(_MOST), strict=False))


def _disbelieved(case: Case, signal: str) -> Iterator[Finding]:
    measured = measure(case, signal, by_host=SIGNALS[signal].source is Source.NODE)
    if measured.aside:
        yield _finding(case, measured, measured.aside)


def _finding(case: Case, measured: Measured, aside: Mapping[Subject, str]) -> Finding:
    ranks = tuple(sorted(who for who in aside if isinstance(who, int)))
    hosts = tuple(sorted(who for who in aside if isinstance(who, str)))
    whose = case.name_ranks(ranks) if ranks else fold_hosts(hosts)
    return Finding(
        kind="observation",
        text=f"{measured.signal} of {whose} does not count: {next(iter(aside.values()))}",
        ranks=ranks,
        hosts=hosts or case.ranks.hosts_of(ranks),
        cites=(Citation(probe="metrics", text=measured.query),),
    )


def _beyond(case: Case, signal: str) -> Iterator[Finding]:
    """Series of a GPU that its node does not have."""
    gpus, known = case.view("gpus", gpu_inventory) or {}, joiner(case)
    answer = (case.view("metrics", metric_set) or {})[signal].parts.get("now")
    for curve in answer.curves if answer else ():
        host, gpu = known.host(curve.labels), known.gpu(curve.labels)
        count = len(gpus.get(host, ())) if host is not None else 0
        if count and gpu is not None and gpu >= count and not known.ranks_of(curve.labels):
            text = f"{signal} of GPU {gpu} on {host} does not count: that node has {count} GPUs"
            hosts = (host,) if host is not None else ()
            yield Finding(kind="observation", text=text, hosts=hosts, cites=(Citation(probe="metrics"),))
