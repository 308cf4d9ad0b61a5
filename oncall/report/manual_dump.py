"""Asks a running job for Flight Recorder dumps through its pipes, waits for them, and reads them.

This acts on the nodes: the job writes files that it would not have written. It is for what an operator has confirmed.
"""

import asyncio
import time
from dataclasses import dataclass, replace

from oncall.bundle.evidence import Evidence
from oncall.bundle.store import Bundle
from oncall.flight_recorder import Analysis, DumpSet, Kind, analyse
from oncall.playbook.sources import LiveSource
from oncall.probes.catalogue import DUMP_REQUEST, PROBES
from oncall.readings.case import Case
from oncall.readings.dump_list import dump_list
from oncall.readings.fresh_dumps import fresh_dumps, loaded_dumps
from oncall.report.triage import Listener, case_of, live_source

_WRITTEN_WITHIN_S = 20.0
_POLL_S = 0.5
_MOMENT = "all have joined what they wait in, as in a running job at any moment: a second dump tells whether it moves"
_SLACK_S = 1.5
"""Time stamps of files are whole seconds."""


@dataclass(frozen=True, slots=True)
class ManualDump:
    """What came of the request: the ranks that were asked, for each other why not, and what their dumps say.

    `late` are ranks that were asked and wrote nothing in time; `analysis` is None where no dump came.
    """

    asked: tuple[int, ...]
    not_asked: dict[int, str]
    late: tuple[int, ...]
    analysis: Analysis | None


async def dump_now(bundle: Bundle, listen: Listener) -> ManualDump:
    """Ask all ranks for a dump, wait for the files at most 20 s, fetch and analyse them."""
    case = case_of(bundle)
    async with live_source(bundle, case, listen, None) as source:
        began = time.monotonic()
        asked, refused = _requests(await source.put(DUMP_REQUEST, case))
        if not asked:
            return ManualDump((), refused, (), None)
        await _written(source, case, len(asked), began)
        evidence = await source.put(PROBES["flight_recorder"], case)
    dumps = _since(evidence, time.monotonic() - began)
    late = tuple(rank for rank in asked if rank not in dumps.dumps)
    analysis = analyse(dumps, world_size=case.run.ranks.world_size) if dumps.dumps else None
    return ManualDump(asked, refused, late, None if analysis is None else of_a_moment(analysis))


def of_a_moment(analysis: Analysis) -> Analysis:
    """The same without what a running job shows at any moment: operations that all joined and none has finished yet.

    Dumps that a watchdog wrote come minutes after that; those that were asked for do not.
    """
    if not analysis.origins or any(origin.kind is not Kind.TRANSPORT_STALL for origin in analysis.origins):
        return analysis
    return replace(analysis, origins=(), motion=_MOMENT)


def dumps_of(bundle: Bundle) -> DumpSet | None:
    """The dumps that lie in a bundle: those that were asked for, or those of the hang; None where none were fetched."""
    evidence, request = bundle.evidence("flight_recorder"), bundle.evidence(DUMP_REQUEST.name)
    if evidence is None:
        return None
    fetched = [answer.started for answer in evidence.answers.values()]
    if request is not None and request.answers and fetched:
        began = min(answer.started for answer in request.answers.values())
        return _since(evidence, (max(fetched) - began).total_seconds())
    case = case_of(bundle)
    case.add(evidence)
    found = fresh_dumps(case)
    return None if found is None else found.dumps


def _since(evidence: Evidence, seconds: float) -> DumpSet:
    """The dumps no older than that; a file of an earlier hang lies in the same folder."""
    young = [f for f in dump_list(evidence).files if f.age_s is not None and f.age_s <= seconds + _SLACK_S]
    # One that was reduced on its node has lost the host's name.
    fresh = {name for file in young for name in (file.source, file.path)}
    loaded = loaded_dumps(evidence)
    return replace(loaded, dumps={rank: dump for rank, dump in loaded.dumps.items() if dump.source in fresh})


def _requests(evidence: Evidence) -> tuple[tuple[int, ...], dict[int, str]]:
    asked, refused = [], {}
    for _, part in evidence.all_parts("request"):
        rank, outcome = part.number("rank"), part.attributes.get("outcome", "")
        if rank is not None and outcome == "asked":
            asked.append(rank)
        elif rank is not None:
            refused[rank] = outcome
    return tuple(sorted(asked)), refused


async def _written(source: LiveSource, case: Case, wanted: int, began: float) -> None:
    """Wait until so many dumps are younger than the request, or until no more can be hoped for."""
    while time.monotonic() - began < _WRITTEN_WITHIN_S:
        listed = dump_list(await source.put(PROBES["dumps"], case, keep_as="dumps_again"))
        limit_s = time.monotonic() - began + _SLACK_S
        if sum(1 for file in listed.files if file.age_s is not None and file.age_s <= limit_s) >= wanted:
            return
        await asyncio.sleep(_POLL_S)
