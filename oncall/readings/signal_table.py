"""What each signal of a run has now: for how many of those expected, and how old."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from oncall.readings.case import Case
from oncall.readings.measured import Measured, measure
from oncall.readings.metric_set import metric_set
from oncall.readings.series_join import joiner
from oncall.run.nodes import expand_hosts
from oncall.signals.signal import Source
from oncall.signals.vocabulary import SIGNALS

Of = Literal["ranks", "hosts", "run"]


class SignalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One signal. `of` is whom its series are about; `expected` is None where their number is not known.

    `covered` and `stale` count those with a fresh and with an old newest sample; ages in seconds. `problem` says what
    keeps it from being known.
    """

    signal: str
    query: str
    own_query: bool
    of: Of
    covered: int
    expected: int | None
    stale: int
    newest_age_s: float | None
    problem: str | None


def signal_table(case: Case, queries: Mapping[str, str]) -> tuple[SignalRow, ...]:
    """A row for each signal, in the order of the vocabulary; `queries` is the run's PromQL."""
    return tuple(_row(case, name, query) for name, query in queries.items())


def _row(case: Case, name: str, query: str) -> SignalRow:
    by_host = SIGNALS[name].source is Source.NODE
    measured = measure(case, name, by_host=by_host)
    of: Of = "hosts" if by_host else "ranks"
    if not measured.now and not measured.stale and not by_host and measured.problem is None:
        of, measured = _without_ranks(case, name, measured)
    expected = {"ranks": len(case.ranks.ranks) or None, "hosts": len(expand_hosts(case.run.nodes)), "run": 1}[of]
    age_s = measured.newest_age_s
    return SignalRow(
        signal=name,
        query=query,
        own_query=name in case.run.signals,
        of=of,
        covered=len(measured.now),
        expected=expected,
        stale=len(measured.stale),
        newest_age_s=None if age_s is None else round(age_s, 1),
        problem=_problem(measured),
    )


def _without_ranks(case: Case, name: str, measured: Measured) -> tuple[Of, Measured]:
    """A signal whose series name no rank: by host, else as one of the whole run, where no label hints at anybody."""
    hosts = measure(case, name, by_host=True)
    if hosts.now or hosts.stale:
        return "hosts", hosts
    answer = (case.view("metrics", metric_set) or {}).get(name)
    now = answer.parts.get("now") if answer else None
    known = joiner(case).labels
    hints = {*known.rank, *known.gpu, *known.uuid}
    told = [curve for curve in now.curves if not any(curve.labels.get(label) for label in hints)] if now else []
    if not told:
        return "ranks", measured
    return "run", Measured(name, measured.query, now={"run": told[0].points[-1][1]}, end=measured.end)


def _problem(measured: Measured) -> str | None:
    if measured.now and measured.problem is None:
        return None
    return (measured.lacks(()) or "").removeprefix(f"{measured.signal}: ") or None
