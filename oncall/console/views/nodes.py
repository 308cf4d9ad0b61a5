"""Who answered and who did not: the silent first, then the others as they are named."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from oncall.console.lines import NOTHING, Column, Row, Span, Tone, head_row, plain_row, say, table_spans
from oncall.console.snapshot import Snapshot

if TYPE_CHECKING:
    from oncall.report.seen import NodeRow

_COLUMNS = (Column("", 2), Column("node", 16), Column("ranks", 14), Column("took", 8), Column("what it lacks", 0))


class NodeRows(Sequence[Row]):
    """A row for each node, made when it is looked at."""

    def __init__(self, nodes: Sequence["NodeRow"]) -> None:
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self._nodes) + 1

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        return head_row(_COLUMNS) if position == 0 else _row(self._nodes[position - 1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeRows) and other._nodes == self._nodes

    __hash__ = None  # type: ignore[assignment]


def node_rows(snapshot: Snapshot) -> Sequence[Row]:
    """All nodes, those that lack an answer first."""
    known = snapshot.known
    if known is None or not known.seen.nodes:
        return list(_progress(snapshot)) or [plain_row(NOTHING, "no node was asked yet", Tone.WARN)]
    return NodeRows(sorted(known.seen.nodes, key=lambda node: not node.missing))


def _progress(snapshot: Snapshot) -> Iterator[Row]:
    """How far each probe is, and who failed it, before any evidence was read."""
    for probe in snapshot.probes:
        told = f"{probe.name:<16}{probe.answered:,} of {probe.asked:,} nodes have answered"
        yield plain_row(f"probe {probe.name}", told, Tone.PLAIN if probe.finished else Tone.DIM)
        for host, reason in probe.missing.items():
            yield plain_row(f"failed {probe.name} {host}", f"{'':16}{host}: {reason}", Tone.WARN)


def _row(node: "NodeRow") -> Row:
    sign = Span("?" if node.missing else "+", Tone.WARN if node.missing else Tone.GOOD)
    lacks = "; ".join(f"{probe}: {reason}" for probe, reason in node.missing.items())
    cells = (
        sign,
        say(node.host),
        say(node.ranks or "-", Tone.PLAIN if node.ranks else Tone.DIM),
        Span(f"{node.took_s:.1f} s" if node.took_s is not None else "-", Tone.DIM),
        say(lacks or f"nothing; it answered {', '.join(node.answered)}", Tone.WARN if lacks else Tone.DIM),
    )
    return Row(node.host, table_spans(_COLUMNS, cells), copies=node.host, about=node)


def one_node_rows(node: "NodeRow") -> list[Row]:
    """One node in full."""
    rows = [plain_row("host", f"{node.host}  ranks {node.ranks or 'not known'}", Tone.STRONG, copies=node.host)]
    rows += [
        Row(f"missing {probe}", (Span(f"{probe:<16}", Tone.WARN), say(reason)), hang=16, copies=reason)
        for probe, reason in node.missing.items()
    ]
    rows += [plain_row(f"ok {probe}", f"{probe:<16}answered", Tone.DIM) for probe in node.answered]
    return rows
