"""What the kernels of all nodes report, with times in UTC and GPUs named by rank where that is known."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from oncall.bundle.evidence import Evidence, Part
from oncall.formats.event import Event
from oncall.formats.kernel import read_kernel
from oncall.formats.kernel_journal import read_anchors
from oncall.formats.kernel_summary import should_page
from oncall.formats.kernel_time import EventTime, NodeClock, event_time, tied
from oncall.readings.boots import Boots
from oncall.readings.clock import node_clock
from oncall.readings.finding import Citation
from oncall.readings.kernel_state import state_of

_CITED = 400
"""Characters of a line that are shown."""


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """One event of a node's kernel log.

    `at` is UTC, within `uncertainty_s` either way; None where the line holds no time. `pages` is whether it should
    wake somebody when it hits a running job, None where no table tells. `line` is the first line as logged. `before` is
    the last boot for an event of an earlier one whose own time is not known. `ended` is whether a later line of the
    same log says that it is over: the link came up, the server answers, the driver wants nothing done any more.
    """

    host: str
    event: Event
    at: datetime | None
    uncertainty_s: float | None
    pages: bool | None
    line: str
    before: datetime | None = None
    ended: bool = False

    @property
    def latest(self) -> datetime | None:
        """When it happened, or by when it had; None where nothing bounds it."""
        return self.at or self.before

    @property
    def pci_address(self) -> str | None:
        """The GPU's address as `dddd:bb:dd`, None where the event is about no GPU."""
        return self.event.text("pci")

    @property
    def cite(self) -> Citation:
        """The line that tells it."""
        return Citation(probe="kernel", host=self.host, line=self.event.first_line, text=self.line[:_CITED])


@dataclass(frozen=True, slots=True)
class KernelSet:
    """All events in the order of each node's log.

    `read` are the hosts whose log came whole, `refused` tells why another's did not; what came of it counts.
    """

    events: tuple[KernelEvent, ...]
    read: tuple[str, ...]
    refused: Mapping[str, str]


def kernel_set(evidence: Evidence) -> KernelSet:
    """Read the answers of the `kernel` probe."""
    events: list[KernelEvent] = []
    read = []
    refused = {}
    for host in evidence.asked:
        parts = evidence.parts(host)
        clock = _anchored(node_clock(evidence.answers.get(host), parts), parts)
        cut = evidence.why_cut(host)
        if cut is not None:
            refused[host] = cut
        for part in parts:
            if part.name == "kernel":
                read += [host] if cut is None else []
                events += _with_ends(tuple(_events(clock, host, part.data)))
            elif part.name == "refused":
                refused[host] = part.text.strip().split("\n")[0] if part.text.strip() else "no reason given"
    return KernelSet(tuple(events), tuple(read), refused)


def _anchored(clock: NodeClock | None, parts: Iterable[Part]) -> NodeClock | None:
    """The node's clock, tied to its kernel's own by what its journal tells."""
    told = next((part.text for part in parts if part.name == "anchors"), "")
    return tied(clock, read_anchors(told)) if clock is not None and told else clock


def _events(clock: NodeClock | None, host: str, data: bytes) -> Iterator[KernelEvent]:
    lines = data.split(b"\n")
    boots = Boots.of(lines, clock)
    for event in read_kernel(data, "kernel log").events:
        told = event_time(event, clock)
        placed = told if isinstance(told, EventTime) else None
        earlier = boots.misplaced(event, placed)
        yield KernelEvent(
            host=host,
            event=event,
            at=placed.at if placed and not earlier else None,
            uncertainty_s=placed.uncertainty_s if placed and not earlier else None,
            pages=should_page(event),
            line=lines[event.first_line - 1].decode("utf-8", "replace"),
            before=boots.last if earlier else None,
        )


def _with_ends(events: Sequence[KernelEvent]) -> Iterator[KernelEvent]:
    """The events of one log, each with whether a later one ends it."""
    states = [state_of(event.event) for event in events]
    last_end = {subject: at for at, (subject, over) in enumerate(states) if over}
    for at, (event, (subject, over)) in enumerate(zip(events, states, strict=True)):
        ended = subject is not None and not over and at < last_end.get(subject, -1)
        yield replace(event, ended=True) if ended else event
