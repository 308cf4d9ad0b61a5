"""What the kernels reported, what pages first, and what each Xid means for a training job."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from oncall.console.lines import NOTHING, Column, Row, Span, Tone, head_row, heading, plain_row, say, table_spans
from oncall.console.snapshot import Snapshot
from oncall.run.nodes import fold_hosts

if TYPE_CHECKING:
    from oncall.report.seen import KernelRow

_COLUMNS = (Column("pages", 5), Column("UTC", 11), Column("node", 12), Column("ranks", 8), Column("what", 0))


def hardware_rows(snapshot: Snapshot) -> Sequence[Row]:
    """One row an event; `about` holds it."""
    known = snapshot.known
    if known is None or "kernel" not in {probe.name for probe in snapshot.probes} | set(known.coverage):
        words = (
            "kernel logs are on their way" if snapshot.report is None else "no kernel log was asked for in this walk"
        )
        return [plain_row(NOTHING, words, Tone.WARN)]
    rows = [head_row(_COLUMNS)]
    rows += [_event(index, event, known.started) for index, event in enumerate(known.seen.kernel)]
    if known.seen.kernel_more:
        rows.append(plain_row("more", f"and {known.seen.kernel_more:,} more events", Tone.DIM))
    if not known.seen.kernel:
        rows.append(plain_row("quiet", _quiet(snapshot), Tone.DIM))
    rows += _unread(snapshot)
    return rows


def _quiet(snapshot: Snapshot) -> str:
    known = snapshot.known
    covered = known.coverage.get("kernel") if known else None
    refused = len(known.seen.kernel_refused) if known else 0
    if covered is None:
        return "no event in the logs that were read"
    return f"no event in the logs of the {covered.answered - refused} of {covered.asked} nodes that could be read"


def _event(index: int, event: "KernelRow", now: datetime) -> Row:
    pages = {True: ("PAGE", Tone.BAD), False: ("no", Tone.DIM), None: ("?", Tone.WARN)}[event.pages]
    cells = (
        Span(*pages),
        Span(_when(event.at, now), Tone.PLAIN if event.at else Tone.WARN),
        say(event.host),
        say(event.ranks or "-", Tone.PLAIN if event.ranks else Tone.DIM),
        say(event.text),
    )
    return Row(f"event {index}", table_spans(_COLUMNS, cells), copies=event.line, about=event)


def _when(at: datetime | None, now: datetime) -> str:
    """The time of day, and before today the day."""
    if at is None:
        return "?"
    return f"{at:%H:%M:%S}" if at.date() == now.date() else f"{at:%m-%d %H:%M}"


def _unread(snapshot: Snapshot) -> Iterator[Row]:
    known = snapshot.known
    if known is None:
        return
    reasons: dict[str, list[str]] = {}
    for host, reason in known.seen.kernel_refused.items():
        reasons.setdefault(reason, []).append(host)
    for host, reason in (known.coverage["kernel"].missing if "kernel" in known.coverage else {}).items():
        reasons.setdefault(reason, []).append(host)
    if reasons:
        yield heading("not read, so not cleared")
    for reason, hosts in reasons.items():
        yield Row(f"unread {reason}", (say(f"{fold_hosts(hosts)}  ", Tone.WARN), say(reason)), copies=reason)


def event_rows(event: "KernelRow") -> list[Row]:
    """One event in full: the line as logged, and what is published about its code."""
    rows = [plain_row("text", f"{event.host}: {event.text}", Tone.STRONG)]
    told = (
        ("severity", event.severity),
        ("action", event.action),
        ("note", event.note),
        ("gpu", event.pci_address),
        ("ranks", event.ranks or None),
    )
    rows += [Row(f"told {name}", (Span(f"{name:<9}", Tone.DIM), say(text)), hang=9) for name, text in told if text]
    rows.append(plain_row("line", event.line, Tone.DIM, copies=event.line))
    if event.code is not None:
        command = f"oncall xid {event.code}"
        rows.append(Row("by hand", (Span("BY HAND  ", Tone.DIM), say(command)), hang=9, copies=command))
    return rows
