"""Which rank holds up the collective that the others wait in, by the Flight Recorder dumps of all ranks?"""

from collections.abc import Mapping

from oncall.flight_recorder.model import Analysis, Grade, Hop, Kind, Origin
from oncall.readings.case import Case
from oncall.readings.dump_list import dump_list
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.fresh_dumps import FreshDumps, fresh_dumps, hang
from oncall.run.nodes import fold_ranks

_VERDICTS: Mapping[Kind, str] = {
    Kind.MISSING_COLLECTIVE: "absent",
    Kind.EXTRA_COLLECTIVE: "absent",
    Kind.UNEVEN_ITERATIONS: "absent",
    Kind.EARLY_EXIT: "absent",
    Kind.STUCK_BEFORE_COLLECTIVE: "absent",
    Kind.IN_LAUNCH: "absent",
    Kind.SIZE_MISMATCH: "mismatch",
    Kind.DTYPE_MISMATCH: "mismatch",
    Kind.TYPE_MISMATCH: "mismatch",
    Kind.SPLIT_MISMATCH: "mismatch",
    Kind.P2P_MISMATCH: "mismatch",
    Kind.CYCLE: "order",
    Kind.PROCESS_LOST: "no-dump",
    Kind.GPU_STALLED: "gpu",
    Kind.TRANSPORT_STALL: "all-joined",
}


def collective(case: Case) -> Judgement:
    """What the dumps say.

    `absent`: a rank has not issued what the others wait for. `mismatch`: it issued another thing there. `order`:
    groups used in opposite orders. `gpu`: it issued the same and its GPU lags. `all-joined`: everyone issued it and
    nobody finishes. `no-dump`: only a rank without a dump can explain it. `no-fault`: nothing hangs in the dumps.
    `unknown`: there are none of this hang, or those that are missing could name another.
    """
    found, analysis = fresh_dumps(case), hang(case)
    if found is None or analysis is None or not found.dumps.dumps:
        return unknown(_why_none(case, found))
    unseen = _unseen(case, analysis, found)
    origins = [origin for origin in analysis.origins if not _only_unseen(origin, unseen)]
    findings = tuple(_finding(case, origin, unseen) for origin in origins)
    completeness = f"{analysis.coverage.dumps} of {analysis.coverage.world} dumps"
    if found.set_aside:
        completeness += f"; {found.set_aside}"
    if findings:
        reason = "; ".join(finding.text for finding in findings[:3])
        return Judgement(verdict=_VERDICTS[origins[0].kind], reason=f"{reason} ({completeness})", findings=findings)
    if analysis.undecided or analysis.origins:
        return unknown(f"{_undecided(analysis, unseen)} ({completeness})")
    if analysis.motion:
        return Judgement(verdict="no-fault", reason=f"{analysis.motion} ({completeness})")
    if analysis.waiting:
        waiting = len(analysis.waiting)
        return unknown(f"{waiting} ranks wait, and nobody for a rank that is behind ({completeness}); ask again")
    return Judgement(verdict="no-fault", reason=f"no rank waits in the {completeness}")


def _why_none(case: Case, found: FreshDumps | None) -> str:
    if found is not None and found.stale:
        return f"the dumps of ranks {fold_ranks(found.stale)} are older than the last step or than their processes"
    if found is not None and found.foreign:
        return f"no dump is of this job: {found.set_aside}"
    if found is not None and found.dumps.refused:
        first = found.dumps.refused[0]
        return f"none of {len(found.dumps.refused)} dumps can be read; {first.source}: {first.reason}"
    listed = case.view("flight_recorder", dump_list)
    if listed is not None and listed.missing_folders:
        host, folder = next(iter(listed.missing_folders.items()))
        return f"no dumps: {folder} is no folder on {host}"
    coverage = case.coverage("flight_recorder")
    return f"no Flight Recorder dump was found; {coverage.describe()}" if coverage.asked else "no dump was fetched"


def _unseen(case: Case, analysis: Analysis, found: FreshDumps) -> frozenset[int]:
    """Ranks without a dump because their node did not answer, or another job's dump lies in its place.

    Nothing may be concluded from that.
    """
    absent = {each.rank for each in analysis.coverage.absent}
    return frozenset(absent.intersection({*case.unseen_ranks("flight_recorder"), *found.foreign}))


def _only_unseen(origin: Origin, unseen: frozenset[int]) -> bool:
    accused = set(origin.ranks or origin.among)
    return origin.kind is Kind.PROCESS_LOST and accused <= unseen


def _undecided(analysis: Analysis, unseen: frozenset[int]) -> str:
    if unseen:
        return f"the dumps of ranks {fold_ranks(unseen)}, which were not seen, would decide"
    return "; ".join(f"{each.reason} (deciding: ranks {fold_ranks(each.deciding)})" for each in analysis.undecided)


def _finding(case: Case, origin: Origin, unseen: frozenset[int]) -> Finding:
    frame = origin.frame
    shown = f"{frame.name} ({frame.file}:{frame.line})" if frame else None
    return Finding(
        kind=str(origin.kind),
        text=_text(case, origin),
        role=Role.ORIGIN,
        grade=_grade(origin, unseen),
        ranks=origin.ranks,
        hosts=case.ranks.hosts_of(origin.ranks),
        frame=shown,
        group=origin.group.label if origin.group else None,
        sequence=origin.seq,
        operation=origin.op,
        explains=origin.explains.ranks,
        chain=tuple(map(_hop, origin.chain)),
        next_check=origin.next_check or None,
        cites=(Citation(probe="flight_recorder", text=origin.says),),
    )


def _hop(hop: Hop) -> str:
    who = f"rank {fold_ranks(hop.held_by)} " if hop.held_by else ""
    return f"rank {hop.rank} waits in {hop.op} {hop.seq} of {hop.group.label}: {who}{hop.why}"


def _text(case: Case, origin: Origin) -> str:
    """What the analysis says, with the host behind the ranks and the call site at the end."""
    named = case.name_ranks(origin.ranks)
    plain = f"rank {origin.ranks[0]}" if len(origin.ranks) == 1 else f"ranks {fold_ranks(origin.ranks)}"
    says = origin.says.replace(plain, named, 1) if origin.ranks and plain in origin.says else origin.says
    return f"{says}, in {origin.frame.name} ({origin.frame.file}:{origin.frame.line})" if origin.frame else says


def _grade(origin: Origin, unseen: frozenset[int]) -> Grade:
    """Members that were not seen may hold the other half of what a majority decided."""
    members = set(origin.group.ranks) if origin.group else set()
    voted = _VERDICTS[origin.kind] == "mismatch" or origin.kind in {Kind.EXTRA_COLLECTIVE, Kind.MISSING_COLLECTIVE}
    if voted and len(members & unseen) * 2 >= len(members):
        return Grade.UNDECIDED
    return Grade.LIKELY if unseen and origin.grade is Grade.SURE else origin.grade
