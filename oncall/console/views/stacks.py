"""One call tree for all ranks: outliers first, equal ranks folded, and two groups beside each other."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from oncall.console.glyphs import Glyphs
from oncall.console.lines import NOTHING, Row, Span, Tone, heading, plain_row, say
from oncall.console.snapshot import Snapshot, probe_of
from oncall.run.nodes import expand_ranks

if TYPE_CHECKING:
    from oncall.readings.suspects import Suspect
    from oncall.report.model import Account
    from oncall.report.seen import StackRow

_RANKS_SHOWN = 24
_CHAIN_SHOWN = 4


@dataclass(slots=True)
class _Node:
    """A frame of the merged tree, the groups that end here and the frames called from here."""

    frame: str
    groups: list["StackRow"] = field(default_factory=list)
    calls: dict[str, "_Node"] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(group.count for group in self.groups) + sum(node.count for node in self.calls.values())


def stack_rows(snapshot: Snapshot, glyphs: Glyphs) -> list[Row]:
    """The merged tree; each leaf is a set of ranks, its row holds the group."""
    known = snapshot.known
    if known is None or not (known.seen.stacks or known.seen.without_stack):
        return [plain_row(NOTHING, _why_none(snapshot), Tone.WARN)]
    groups = known.seen.stacks
    total = sum(group.count for group in groups)
    rows = [heading(f"{_ranks(total)} by where they stand, the fewest first")]
    root = _Node("")
    for group in groups:
        node = root
        for frame in reversed(group.frames):
            node = node.calls.setdefault(frame, _Node(frame))
        node.groups.append(group)
    missing = _without_group(known)
    rows += _branches(root, "", glyphs, frozenset() if missing else _odd_ones(known))
    rows += [_without(f"ranks {ranks}", reason, ranks, glyphs) for reason, ranks in known.seen.without_stack.items()]
    told = {rank for ranks in known.seen.without_stack.values() for rank in expand_ranks(ranks)}
    for suspect in missing:
        if suspect.rank not in told:
            reason = suspect.says.get("process", "no stack was taken of it")
            rows.append(_without(f"rank {suspect.rank}", reason, str(suspect.rank), glyphs))
    return rows


def _without_group(known: "Account") -> "list[Suspect]":
    """The suspects that no stack was taken of."""
    taken = {rank for group in known.seen.stacks for rank in expand_ranks(group.ranks)}
    return [suspect for suspect in known.suspects if suspect.rank not in taken]


def _odd_ones(known: "Account") -> frozenset[str]:
    """The small groups, or those of them that hold a suspect."""
    largest = max((group.count for group in known.seen.stacks), default=0)
    small = [group for group in known.seen.stacks if group.count < largest]
    suspects = {suspect.rank for suspect in known.suspects}
    told = [group for group in small if not suspects.isdisjoint(expand_ranks(group.ranks))]
    return frozenset(group.ranks for group in told or small)


def _without(who: str, reason: str, ranks: str, glyphs: Glyphs) -> Row:
    spans = (Span(f"{glyphs.unknown} no stack  ", Tone.WARN), say(f"{who}: {reason}"))
    return Row(f"without {ranks}", spans, copies=ranks)


def _why_none(snapshot: Snapshot) -> str:
    known = snapshot.known
    asked = probe_of(snapshot, "stacks")
    missing = asked.missing if asked else {}
    missing = known.coverage["stacks"].missing if known and "stacks" in known.coverage else missing
    if missing:
        host, reason = next(iter(missing.items()))
        again = "; r asks again" if snapshot.start.live else ""
        return f"no stack yet from {len(missing)} of the nodes, such as {host}: {reason}{again}"
    if snapshot.report is None:
        return "stacks are on their way: py-spy reads every rank, which takes a few seconds"
    return "no stack was taken: the walk did not ask for any, or no node had py-spy (`py_spy` in the run file)"


def _branches(node: _Node, trunk: str, glyphs: Glyphs, odd: frozenset[str]) -> Iterator[Row]:
    """Below a node: its own groups, then what it calls, the rarest first."""
    parts: list[StackRow | _Node] = [*node.groups, *node.calls.values()]
    parts.sort(key=lambda part: part.count)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        arm = f"{trunk}{glyphs.last_branch if last else glyphs.branch} "
        below = f"{trunk}{'  ' if last else glyphs.trunk} "
        if not isinstance(part, _Node):
            yield _leaf(part, arm, (), glyphs, odd=part.ranks in odd)
            continue
        chain, end = _chain(part)
        if not end.calls and len(end.groups) == 1:
            yield _leaf(end.groups[0], arm, chain, glyphs, odd=end.groups[0].ranks in odd)
        else:
            yield Row(
                f"node {arm}{chain}", (Span(arm, Tone.DIM), say(f"{end.count:>6,}  "), say(_arrows(chain, glyphs)))
            )
            yield from _branches(end, below, glyphs, odd)


def _chain(node: _Node) -> tuple[tuple[str, ...], _Node]:
    """Frames that call one thing only are one row."""
    frames = [node.frame]
    while not node.groups and len(node.calls) == 1:
        (node,) = node.calls.values()
        frames.append(node.frame)
    return tuple(frames), node


def _leaf(group: "StackRow", arm: str, chain: Sequence[str], glyphs: Glyphs, *, odd: bool) -> Row:
    ranks = group.ranks if len(group.ranks) <= _RANKS_SHOWN else group.ranks[: _RANKS_SHOWN - 1] + glyphs.ellipsis
    spans = (
        Span(arm, Tone.DIM),
        Span(f"{group.count:>6,}  ", Tone.STRONG),
        say(f"[{ranks}]  ", Tone.BAD if odd else Tone.PLAIN),
        Span(f"{glyphs.odd} odd one out  " if odd else "", Tone.BAD),
        say(_arrows(chain, glyphs)),
        say(f"  {group.words}", Tone.BAD if odd else Tone.DIM),
    )
    return Row(f"group {group.ranks}", spans, copies=group.ranks, about=group)


def _arrows(frames: Sequence[str], glyphs: Glyphs) -> str:
    names = [frame.partition(" (")[0].rpartition(".")[2] for frame in frames]
    shown = names if len(names) <= _CHAIN_SHOWN else [names[0], glyphs.ellipsis, *names[-_CHAIN_SHOWN + 1 :]]
    return " → ".join(shown)


def group_rows(group: "StackRow") -> list[Row]:
    """One group in full: who, what they do, and the frames from the innermost outwards."""
    rows = [
        Row("who", (Span(f"{_ranks(group.count)}  ", Tone.STRONG), say(group.ranks)), copies=group.ranks),
        plain_row("what", f"{group.words} in {group.frame}" if group.frame else group.words, Tone.STRONG),
        heading("innermost first"),
    ]
    rows += [_frame(frame, group.frame) for frame in group.frames]
    rows.append(heading("enter shows py-spy's own output for one rank; d marks it to lay another beside it"))
    return rows


def _frame(frame: str, telling: str | None) -> Row:
    return plain_row(f"frame {frame}", frame, Tone.STRONG if frame == telling else Tone.PLAIN, copies=frame)


def beside_rows(left: "StackRow", right: "StackRow", glyphs: Glyphs) -> tuple[list[Row], list[Row]]:
    """Two stacks, outermost frame first, each differing frame marked in both."""
    pairs = list(zip_longest(reversed(left.frames), reversed(right.frames)))
    first = [_side_head(left)]
    second = [_side_head(right)]
    for number, (one, other) in enumerate(pairs):
        first.append(_side_frame(number, one, one != other, glyphs))
        second.append(_side_frame(number, other, one != other, glyphs))
    return first, second


def _side_head(group: "StackRow") -> Row:
    return Row(
        "head", (Span(f"{_ranks(group.count)}  ", Tone.STRONG), say(f"{group.ranks}  {group.words}")), fixed=True
    )


def _side_frame(number: int, frame: str | None, differs: bool, glyphs: Glyphs) -> Row:
    mark = f"{glyphs.odd} " if differs and frame else "  "
    tone = Tone.BAD if differs else Tone.DIM
    return Row(f"frame {number}", (Span(mark, tone), say(frame or "", tone)), copies=frame)


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count:,} ranks"


def ranks_of(group: "StackRow", most: int) -> Iterable[int]:
    """The first ranks of a group."""
    return expand_ranks(group.ranks)[:most]
