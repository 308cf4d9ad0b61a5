"""One triage from start to report, on the nodes or on a bundle. Both front ends call this."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from oncall.bundle.store import Bundle
from oncall.playbook.engine import take_along, walk
from oncall.playbook.events import WalkEvent
from oncall.playbook.journal import read_journal, read_standing
from oncall.playbook.loader import load as load_playbook
from oncall.playbook.sources import LiveSource, RecordedSource
from oncall.reach.open import open_reach
from oncall.readings.case import Case
from oncall.readings.placement import settle_ranks
from oncall.report.build import build_report
from oncall.report.choice import chosen_playbook
from oncall.report.journal import journal_lines
from oncall.report.model import Report
from oncall.run.file import parse
from oncall.run.nodes import expand_hosts
from oncall.run.ranks import RankMap, parse_rank_map

Listener = Callable[[WalkEvent], None]


def case_of(bundle: Bundle) -> Case:
    """The case that a bundle is about: its run and, where the run has one, its rank map; no evidence yet."""
    run = parse(bundle.read_text("run.toml") or "", str(bundle.path / "run.toml"), default_name=bundle.manifest.run)
    text = bundle.read_text("ranks.json")
    given = parse_rank_map(text, "ranks.json", world_size=run.ranks.world_size) if text else None
    return Case(run, bundle.manifest.started, given)


async def triage(bundle: Bundle, listen: Listener, *, deadline_s: float | None = None) -> Report:
    """Ask the nodes, walk the playbook of the bundle's manifest or the one that the evidence calls for, and report.

    `deadline_s` bounds the whole, in seconds from now; the run's own limit holds where it is None.
    """
    case = case_of(bundle)

    def tell(event: WalkEvent) -> None:
        with suppress(OSError):  # on a full disk the answer is worth more than the journal of how it came about
            bundle.append_event(event)
        listen(event)

    async with live_source(bundle, case, tell, deadline_s) as source:
        source.start(case)
        return await _walk(bundle, source, case, tell)


async def find_ranks(bundle: Bundle, listen: Listener) -> RankMap:
    """The rank map that the processes on the nodes tell, and nothing else asked of them."""
    case = case_of(bundle)
    async with live_source(bundle, case, listen, None) as source:
        for probe in ("processes", "gpus"):
            evidence = await source.evidence(probe, case)
            if evidence is not None:
                case.add(evidence)
    return settle_ranks(case)


@asynccontextmanager
async def live_source(
    bundle: Bundle, case: Case, listen: Listener, deadline_s: float | None
) -> AsyncIterator[LiveSource]:
    """The nodes of a run, asked for as long as the context lasts; `deadline_s` as for `triage`."""
    limit = deadline_s if deadline_s is not None else case.run.thresholds.triage_s
    reach = open_reach(case.run.reach)
    source = LiveSource(bundle, reach, expand_hosts(case.run.nodes), listen, time.monotonic() + limit)
    try:
        yield source
    finally:
        await source.close()
        await reach.close()


async def replay(bundle: Bundle, listen: Listener) -> Report:
    """Walk the playbook on what a bundle holds. Nothing is asked of any node and nothing is written."""
    return await _walk(bundle, RecordedSource(bundle), case_of(bundle), listen)


async def recorded_case(bundle: Bundle) -> Case:
    """The case with all that its bundle holds of the ranks, no step of a playbook walked."""
    case, source = case_of(bundle), RecordedSource(bundle)
    await take_along(source, case)
    dumps = await source.evidence("flight_recorder", case)
    if dumps is not None:
        case.add(dumps)
    return case


async def _walk(bundle: Bundle, source: RecordedSource | LiveSource, case: Case, listen: Listener) -> Report:
    """Walk and report. The report sees all that the bundle will hold, so that a replay knows neither more nor less."""
    started = time.monotonic()
    standing = read_standing(bundle)
    playbook = load_playbook(standing.playbook or await chosen_playbook(bundle, source, case))
    walked = await walk(playbook, source, case, listen, standing.overrulings)
    await source.close()
    await take_along(source, case)
    journal = journal_lines(read_journal(bundle))
    return build_report(walked, bundle=str(bundle.path), took_s=time.monotonic() - started, journal=journal)
