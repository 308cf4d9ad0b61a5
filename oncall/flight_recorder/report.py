"""The analysis as text for a terminal."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from oncall.flight_recorder.collective_table import as_lines
from oncall.flight_recorder.model import Analysis, Frame, Hop, Origin, Undecided
from oncall.neutral import neutral
from oncall.run.nodes import fold_ranks, name_folded


def as_text(analysis: Analysis) -> str:
    """The whole answer: each origin with its evidence, what stays open, the tables, how complete the dumps were."""
    return "\n".join(neutral(line) for line in _lines(analysis)) + "\n"


def narrow(analysis: Analysis, ranks: Collection[int] | None, groups: Collection[str] | None) -> Analysis:
    """Keep the origins that concern these ranks and groups (by name or purpose); None keeps all."""
    kept = tuple(
        origin
        for origin in analysis.origins
        if (ranks is None or not set(ranks).isdisjoint({*origin.ranks, *origin.among, *(h.rank for h in origin.chain)}))
        and (groups is None or (origin.group and not set(groups).isdisjoint({origin.group.name, origin.group.desc})))
    )
    return replace(analysis, origins=kept)


def _lines(analysis: Analysis) -> Iterator[str]:
    if analysis.motion is not None:
        yield f"no origin: {analysis.motion}"
    elif not analysis.waiting:
        yield "no origin: no rank waits on anything" if analysis.coverage.dumps else "no usable dump"
    elif not analysis.origins and not analysis.undecided:
        yield "no origin: nobody waits on a rank that is behind; a second snapshot a minute later would confirm it"
    for origin in analysis.origins:
        yield from _origin_lines(origin)
    for open_part in analysis.undecided:
        yield from _undecided_lines(open_part, {each.rank for each in analysis.coverage.absent})
    for table in analysis.tables:
        yield from as_lines(table)
    yield from _coverage_lines(analysis)


def _origin_lines(origin: Origin) -> Iterator[str]:
    yield f"{origin.kind}: {origin.says}"
    share = origin.explains
    yield f"  {origin.grade}; explains {share.ranks} of {share.waiting} waiting ranks"
    if origin.frame is not None:
        yield f"  call site   {place(origin.frame)}"
    elif origin.last_frame is not None:
        yield f"  last called {place(origin.last_frame)}"
    if origin.victim_frame is not None:
        yield f"  peers wait  {place(origin.victim_frame)}"
    for hop in origin.chain:
        yield f"  {_hop_text(hop)}"
    yield f"  next check  {origin.next_check}"


def _hop_text(hop: Hop) -> str:
    what = f"rank {hop.rank} waits on {hop.op} (group {hop.group.label}, seq {hop.seq})"
    return f"{what}: rank {fold_ranks(hop.held_by)} {hop.why}" if hop.held_by else f"{what}: {hop.why}"


def _undecided_lines(open_part: Undecided, absent: Collection[int]) -> Iterator[str]:
    share = open_part.explains
    yield f"undecided: {open_part.reason}"
    who = name_folded(fold_ranks(open_part.deciding))
    what = "dumps" if set(open_part.deciding) & set(absent) else "stacks"
    yield f"  {share.ranks} of {share.waiting} waiting ranks; the {what} of {who} would decide"


def _coverage_lines(analysis: Analysis) -> Iterator[str]:
    coverage = analysis.coverage
    yield f"dumps: {coverage.dumps} of {coverage.world} ranks"
    for absent in coverage.absent:
        yield f"  rank {absent.rank} not observed: {absent.reason}"
    for refused in coverage.refused:
        if refused.rank is None:
            yield f"  {refused.source}: {refused.reason}"
    for note in coverage.notes:
        yield f"  {note}"


def place(frame: Frame) -> str:
    """A frame as function and file:line."""
    return f"{frame.name} ({frame.file}:{frame.line})"
