"""What readings are given: one incident's evidence so far, and typed views of it that are built once."""

from collections.abc import Callable, Hashable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from oncall.bundle.evidence import Coverage, Evidence
from oncall.readings.finding import Finding, Role
from oncall.run.model import Run
from oncall.run.nodes import fold_hosts, fold_ranks
from oncall.run.ranks import RankMap

T = TypeVar("T")


class Case:
    """One incident as known so far.

    `now` is when the triage began, in UTC; ages are counted from it or, better, from the node's own clock.
    `given_ranks` is the rank map of the run's own file, `ranks` the best that is known. `findings` are those of the
    steps already walked, oldest first.
    """

    def __init__(self, run: Run, now: datetime, given_ranks: RankMap | None = None) -> None:
        self.run = run
        self.now = now
        self.given_ranks = given_ranks
        self.ranks = given_ranks or RankMap()
        self.findings: tuple[Finding, ...] = ()
        self._evidence: dict[str, Evidence] = {}
        self._views: dict[tuple[str, Callable[..., Any]], tuple[Evidence, Any]] = {}
        self._derived: dict[Hashable, tuple[tuple[Evidence | None, ...], RankMap, Any]] = {}

    def add(self, evidence: Evidence) -> None:
        """Take in what a probe brought; a newer turn of the same probe replaces the older."""
        self._evidence[evidence.probe] = evidence

    def evidence(self, probe: str) -> Evidence | None:
        """The newest answers to a probe, or None where it has not run."""
        return self._evidence.get(probe)

    def view(self, probe: str, build: Callable[[Evidence], T]) -> T | None:
        """`build` of a probe's evidence, built once; None where the probe has not run."""
        evidence = self._evidence.get(probe)
        if evidence is None:
            return None
        kept = self._views.get((probe, build))
        if kept is None or kept[0] is not evidence:
            kept = (evidence, build(evidence))
            self._views[probe, build] = kept
        view: T = kept[1]
        return view

    def once(self, key: Hashable, probes: tuple[str, ...], build: Callable[[], T]) -> T:
        """What `build` makes of some probes' evidence and the rank map, made once as long as these stay the same."""
        kept = self._derived.get(key)
        now = tuple(self._evidence.get(probe) for probe in probes)
        stands = kept is not None and all(a is b for a, b in zip(kept[0], now, strict=True))
        if kept is None or not stands or (kept[1] is not self.ranks and kept[1] != self.ranks):
            kept = self._derived[key] = (now, self.ranks, build())
        derived: T = kept[2]
        return derived

    def coverage(self, probe: str) -> Coverage:
        """Who answered a probe; nobody where it has not run."""
        evidence = self._evidence.get(probe)
        return Coverage((), {}) if evidence is None else evidence.coverage

    def unseen_ranks(self, probe: str) -> tuple[int, ...]:
        """The ranks on nodes that did not answer a probe in full, ascending; those without a known place too."""
        answered = set(self.coverage(probe).answered)
        places = self.ranks.places
        return tuple(sorted(r for r in self.ranks.ranks if r not in places or places[r].host not in answered))

    def origins(self) -> tuple[Finding, ...]:
        """The findings that name who began it."""
        return tuple(finding for finding in self.findings if finding.role is Role.ORIGIN)

    def name_ranks(self, ranks: Iterable[int]) -> str:
        """`rank 5 (node002 gpu1)`, or folded for several: `ranks 4-7 (node002)`."""
        return name_ranks(ranks, self.ranks)


def name_ranks(ranks: Iterable[int], known: RankMap) -> str:
    """Ranks with where they run, as a reader wants them named; that one's host alone is not known is said, too."""
    chosen = sorted(set(ranks))
    if len(chosen) == 1:
        place = known.at(chosen[0])
        unplaced = " (its host is not known)" if known.places else ""
        return f"rank {chosen[0]} ({place.label})" if place else f"rank {chosen[0]}{unplaced}"
    hosts = known.hosts_of(chosen)
    where = f" ({fold_hosts(hosts)})" if hosts else ""
    return f"ranks {fold_ranks(chosen)}{where}"
