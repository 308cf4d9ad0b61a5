"""The analysis as text for a terminal."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from oncall.flight_recorder.advice import says_together, together
from oncall.flight_recorder.collective_table import as_lines, counted
from oncall.flight_recorder.layout import wrapped
from oncall.flight_recorder.model import Analysis, Coverage, Frame, Hop, Origin, Undecided
from oncall.neutral import neutral
from oncall.run.nodes import fold_ranks, name_folded

_MOST_HOPS = 8
_MOST_PLACES = 4
_MOST_REASONS = 16


def as_text(analysis: Analysis, width: int | None = None, hidden: int = 0) -> str:
    """The whole answer: each origin with its evidence, what stays open, the tables, how complete the dumps were.

    Within `width` columns, as far as names and paths let it; None breaks no line. `hidden` is how many origins and open
    questions there are besides what is shown.
    """
    lines = [part for line in _lines(analysis, hidden) for part in wrapped(neutral(line), width)]
    lines += [line for table in analysis.tables for line in as_lines(table, width)]
    lines += [part for line in _coverage_lines(analysis.coverage) for part in wrapped(neutral(line), width)]
    return "\n".join(lines) + "\n"


def _lines(analysis: Analysis, hidden: int) -> Iterator[str]:
    if hidden and not analysis.origins and not analysis.undecided:
        yield f"{counted(hidden, 'finding concerns', 'findings concern')} other ranks and groups than those asked for"
    elif analysis.motion is not None:
        yield f"no origin: {analysis.motion}"
    elif not analysis.waiting:
        yield "no origin: no rank waits on anything" if analysis.coverage.dumps else "no usable dump"
    elif not analysis.origins and not analysis.undecided:
        yield "no origin: nobody waits on a rank that is behind; a second snapshot a minute later would confirm it"
    for alike in together(analysis.origins):
        yield from _origin_lines(alike)
    for open_part in analysis.undecided:
        yield from _undecided_lines(open_part, {each.rank for each in analysis.coverage.absent})


def _origin_lines(alike: Sequence[Origin]) -> Iterator[str]:
    origin = alike[0]
    yield f"{origin.kind}: {says_together(alike)}"
    share = origin.explains
    yield f"  {origin.grade}; explains {share.ranks} of {counted(share.waiting, 'waiting rank', 'waiting ranks')}"
    if origin.frame is not None:
        yield from _place_lines("call site  ", {each.ranks: each.frame for each in alike})
    else:
        yield from _place_lines("last called", {each.ranks: each.last_frame for each in alike})
    if origin.victim_frame is not None:
        yield f"  peers wait   {place(origin.victim_frame)}"
    for hop in origin.chain[:_MOST_HOPS]:
        yield f"  chain        {_hop_text(hop)}"
    if len(origin.chain) > _MOST_HOPS:
        yield f"  chain        and {counted(len(origin.chain) - _MOST_HOPS, 'hop', 'hops')} more (--json has all)"
    yield f"  next check   {origin.next_check}"


def _place_lines(label: str, frames: dict[tuple[int, ...], Frame | None]) -> Iterator[str]:
    """Where the ranks of one fault are, those at the same place together."""
    ranks: dict[Frame, list[int]] = defaultdict(list)
    for own, frame in frames.items():
        if frame is not None:
            ranks[frame] += own
    for frame, there in list(ranks.items())[:_MOST_PLACES]:
        yield f"  {label}  {place(frame)}" + (f": {name_folded(fold_ranks(there))}" if len(ranks) > 1 else "")
    if len(ranks) > _MOST_PLACES:
        yield f"  {label}  and at {counted(len(ranks) - _MOST_PLACES, 'other place', 'other places')}"


def _hop_text(hop: Hop) -> str:
    what = f"rank {hop.rank} waits on {hop.op} (group {hop.group.label}, seq {hop.seq})"
    if hop.frame is not None:
        what += f" in {place(hop.frame)}"
    return f"{what}: rank {fold_ranks(hop.held_by)} {hop.why}" if hop.held_by else f"{what}: {hop.why}"


def _undecided_lines(open_part: Undecided, absent: Collection[int]) -> Iterator[str]:
    share = open_part.explains
    yield f"undecided: {open_part.reason}"
    if open_part.group is not None:
        yield f"  waited for   group {open_part.group.label}, seq {open_part.seq}"
    if open_part.victim_frame is not None:
        yield f"  peers wait   {place(open_part.victim_frame)}"
    who = name_folded(fold_ranks(open_part.deciding))
    what = "dumps" if set(open_part.deciding) & set(absent) else "stacks"
    waiting = counted(share.waiting, "waiting rank", "waiting ranks")
    yield f"  next check   {share.ranks} of {waiting}: the {what} of {who} would decide"


def _coverage_lines(coverage: Coverage) -> Iterator[str]:
    yield f"dumps: {coverage.dumps} of {counted(coverage.world, 'rank', 'ranks')}"
    sources = {refused.rank: refused.source for refused in coverage.refused if refused.rank is not None}
    missing: dict[str, list[int]] = defaultdict(list)
    for absent in coverage.absent:
        missing[absent.reason.removeprefix(f"{sources.get(absent.rank)}: ")].append(absent.rank)
    for reason, ranks in list(missing.items())[:_MOST_REASONS]:
        files = [sources[rank] for rank in ranks if rank in sources]
        yield f"  {name_folded(fold_ranks(ranks))} not observed: {reason}{_files(files)}"
    if len(missing) > _MOST_REASONS:
        rest = [rank for ranks in list(missing.values())[_MOST_REASONS:] for rank in ranks]
        yield f"  {name_folded(fold_ranks(rest))} not observed, each for another reason (--json has all)"
    yield from _other_files(coverage)
    for note in coverage.notes:
        yield f"  {note}"


def _other_files(coverage: Coverage) -> Iterator[str]:
    """Files that gave no dump and stand for no absent rank."""
    told = {absent.rank for absent in coverage.absent}
    others: dict[str, list[str]] = defaultdict(list)
    for refused in coverage.refused:
        if refused.rank not in told:
            others[refused.reason].append(refused.source)
    for reason, files in list(others.items())[:_MOST_REASONS]:
        yield f"  not read: {reason}{_files(files)}"
    if len(others) > _MOST_REASONS:
        count = sum(len(files) for files in list(others.values())[_MOST_REASONS:])
        yield f"  not read: {counted(count, 'more file', 'more files')} (--json has all)"


def _files(sources: Sequence[str]) -> str:
    if not sources:
        return ""
    more = f" and {counted(len(sources) - 1, 'more', 'more')}" if len(sources) > 1 else ""
    return f" ({sources[0]}{more})"


def place(frame: Frame) -> str:
    """A frame as function and file:line."""
    return f"{frame.name} ({frame.file}:{frame.line})"
