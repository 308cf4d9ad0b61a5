"""The Flight Recorder dumps of this hang: those of earlier hangs and earlier processes lie in the same folder."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from oncall.bundle.evidence import Evidence
from oncall.flight_recorder import Analysis, DumpSet, analyse, load_blobs
from oncall.readings.case import Case
from oncall.readings.dump_list import DumpList, dump_blobs, dump_list, live_blobs
from oncall.readings.foreign_dumps import foreign_dumps
from oncall.readings.process_table import process_table
from oncall.readings.progress import newest_step, stands_still
from oncall.run.nodes import fold_ranks

_TELL_AGE = ("flight_recorder", "processes", "logs")
"""The probes that tell how old a dump is, and how old it may be."""
_SLACK_S = 2.0
"""Time stamps of files are whole seconds, and a dump may be written in the second in which the last step ended."""


@dataclass(frozen=True, slots=True)
class FreshDumps:
    """The dumps that tell of now, and the ranks whose dumps are older than the last step or than their process.

    `foreign` says of other ranks why their dump is none of this job.
    """

    dumps: DumpSet
    stale: tuple[int, ...]
    foreign: Mapping[int, str]

    @property
    def set_aside(self) -> str | None:
        """Which dumps do not count, and why, in words; None where all do."""
        told = [f"those of ranks {fold_ranks(self.stale)} are of an earlier hang"] if self.stale else []
        if self.foreign:
            rank, why = next(iter(self.foreign.items()))
            told.append(f"those of ranks {fold_ranks(self.foreign)} are of another job (rank {rank}: {why})")
        return f"{'; '.join(told)} and do not count" if told else None


def loaded_dumps(evidence: Evidence) -> DumpSet:
    """All dumps that the `flight_recorder` probe fetched, and for ranks without one what the debug server gave."""
    return _together(written_dumps(evidence), live_dumps(evidence))


def all_dumps(case: Case) -> DumpSet | None:
    """The same of a case, loaded once; None where none were fetched."""
    written, live = case.view("flight_recorder", written_dumps), case.view("flight_recorder", live_dumps)
    return None if written is None or live is None else _together(written, live)


def _together(written: DumpSet, live: DumpSet) -> DumpSet:
    dumps = dict(sorted({**live.dumps, **written.dumps}.items()))
    return replace(written, dumps=dumps, refused=(*written.refused, *live.refused))


def written_dumps(evidence: Evidence) -> DumpSet:
    """The dumps that lay on the nodes."""
    return load_blobs(dump_blobs(evidence))


def live_dumps(evidence: Evidence) -> DumpSet:
    """What PyTorch's debug server gave of each rank's recorder; it shows no stack of an operation."""
    return load_blobs(live_blobs(evidence))


def hang(case: Case) -> Analysis | None:
    """What the dumps of this hang say, worked out once; None where none were fetched."""
    return case.once("hang", _TELL_AGE, lambda: _analysed(case))


def _analysed(case: Case) -> Analysis | None:
    fresh = fresh_dumps(case)
    still = stands_still(case, newest_step(case))
    return None if fresh is None else analyse(fresh.dumps, world_size=case.ranks.world_size, still=still)


def fresh_dumps(case: Case) -> FreshDumps | None:
    """The dumps of this hang, told apart once; None where none were fetched.

    Where nothing tells a dump's age it counts as fresh.
    """
    return case.once("fresh dumps", _TELL_AGE, lambda: _fresh_dumps(case))


def _fresh_dumps(case: Case) -> FreshDumps | None:
    loaded, listed = all_dumps(case), case.view("flight_recorder", dump_list)
    live = case.view("flight_recorder", live_dumps)
    if loaded is None or listed is None or live is None:
        return None
    ages = _ages_s(listed)
    limits = _oldest_s(case)
    stale = set()
    for rank, dump in loaded.dumps.items():
        age_s = ages.get(dump.source)
        if age_s is not None and age_s > min(limits.get(rank, inf), limits[None]) + _SLACK_S:
            stale.add(rank)
    written = {rank: dump for rank, dump in loaded.dumps.items() if dump is not live.dumps.get(rank)}
    foreign = foreign_dumps(case, {rank: dump for rank, dump in written.items() if rank not in stale})
    unfit = stale | foreign.keys()
    fresh = {rank: live.dumps.get(rank) if rank in unfit else dump for rank, dump in loaded.dumps.items()}
    known = {rank: dump for rank, dump in fresh.items() if dump is not None}
    return FreshDumps(
        dumps=replace(loaded, dumps=known),
        stale=tuple(sorted(stale - known.keys())),
        foreign={rank: why for rank, why in foreign.items() if rank not in known},
    )


def _ages_s(listed: DumpList) -> dict[str, float]:
    """The age of each dump by the names it may be loaded under; one that was reduced on its node has lost the host."""
    ages: dict[str, float] = {}
    for file in listed.files:
        for name in (file.source, file.path):
            if file.age_s is not None:
                ages[name] = min(file.age_s, ages.get(name, inf))
    return ages


def _oldest_s(case: Case) -> dict[int | None, float]:
    """How old a rank's dump may be in seconds: as its process, and, for all (None), as the last step."""
    table, step = case.view("processes", process_table), newest_step(case)
    limits: dict[int | None, float] = {None: inf}
    if step is not None and step.age_s is not None and not step.at_least:
        limits[None] = step.age_s + _waited_s(case, "logs")
    waited_s = _waited_s(case, "processes")
    for rank, process in table.by_rank().items() if table else ():
        limits[rank] = inf if process.age_s is None else process.age_s + waited_s
    return limits


def _waited_s(case: Case, since: str) -> float:
    """How much later than another probe the dumps were fetched: everything that it saw is older by then."""
    earlier, fetched = case.evidence(since), case.evidence("flight_recorder")
    began = [answer.started for answer in earlier.answers.values()] if earlier else []
    ended = [answer.started for answer in fetched.answers.values()] if fetched else []
    return max(0.0, (max(ended) - min(began)).total_seconds()) if began and ended else 0.0
