"""What was seen, apart from what follows from it: where the ranks stand, what kernels logged, who answered."""

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from oncall.flight_recorder.collective_table import CollectiveTable
from oncall.formats.xid_catalogue import lookup
from oncall.readings.case import Case
from oncall.readings.fresh_dumps import hang
from oncall.readings.hardware import ranks_of
from oncall.readings.incident_part import TROUBLE, part_of
from oncall.readings.kernel_set import KernelEvent, kernel_set
from oncall.readings.kernel_words import describe
from oncall.readings.progress import newest_step
from oncall.readings.stack_set import StackGroup, own_stacks
from oncall.readings.standings import WORDS
from oncall.run.nodes import fold_ranks

_MOST_KERNEL_ROWS = 2000
_LONGEST_LINE = 2000


class StackRow(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks whose training threads show the same frames, innermost first; `doing` is None where nothing tells."""

    ranks: str
    count: int
    doing: str | None
    words: str
    frame: str | None
    frames: tuple[str, ...]


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a node's kernel log, `at` in UTC. `pages` is whether it should wake somebody."""

    host: str
    at: datetime | None
    kind: str
    code: int | None
    text: str
    pages: bool | None
    severity: str | None
    action: str | None
    note: str | None
    pci_address: str | None
    ranks: str
    line: str


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node: its ranks, the probes that it answered in full, why not the others, its slowest answer in seconds.

    `files` maps a probe to its raw answer: a path inside the bundle. `oncall raw` prints one rank's part of it.
    """

    host: str
    ranks: str
    answered: tuple[str, ...]
    missing: dict[str, str]
    took_s: float | None
    files: dict[str, str]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at a known time (UTC), and the probe that saw it."""

    at: datetime
    source: str
    text: str


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """All of it.

    `without_stack` maps why there is none to the ranks; `kernel_refused` a host to why its log is not known;
    `kernel_more` counts the kernel events beyond the first ones, which are left out.
    """

    stacks: tuple[StackRow, ...]
    without_stack: dict[str, str]
    kernel: tuple[KernelRow, ...]
    kernel_more: int
    kernel_refused: dict[str, str]
    nodes: tuple[NodeRow, ...]
    collectives: tuple[CollectiveTable, ...]
    timeline: tuple[Moment, ...]


def seen(case: Case, probes: Iterable[str]) -> Seen:
    """Everything seen so far; `probes` are those that the nodes' rows tell of."""
    stacks, kernels = own_stacks(case), case.view("kernel", kernel_set)
    events = sorted(kernels.events, key=_weight) if kernels else []
    groups = stacks.groups() if stacks else ()
    analysis = hang(case)
    return Seen(
        stacks=tuple(_stack_row(group) for group in groups),
        without_stack=_by_reason(stacks.failures.items()) if stacks else {},
        kernel=tuple(_kernel_row(case, event) for event in events[:_MOST_KERNEL_ROWS]),
        kernel_more=max(0, len(events) - _MOST_KERNEL_ROWS),
        kernel_refused=dict(kernels.refused) if kernels else {},
        nodes=tuple(_nodes(case, tuple(probes))),
        collectives=analysis.tables if analysis else (),
        timeline=tuple(sorted(_moments(case, events), key=lambda moment: moment.at)),
    )


def _by_reason(failures: Iterable[tuple[int, str]]) -> dict[str, str]:
    reasons: dict[str, list[int]] = {}
    for rank, reason in failures:
        reasons.setdefault(reason, []).append(rank)
    return {reason: fold_ranks(ranks) for reason, ranks in reasons.items()}


def _stack_row(group: StackGroup) -> StackRow:
    frame = group.call_site or group.frame
    return StackRow(
        ranks=fold_ranks(group.ranks),
        count=len(group.ranks),
        doing=group.where,
        words=WORDS.get(group.where or "", "stands"),
        frame=str(frame) if frame else None,
        frames=tuple(str(each) for each in group.frames),
    )


def _weight(event: KernelEvent) -> tuple[int, float]:
    """What pages goes first, then what nothing is known of; then by time."""
    alarm = {True: 0, None: 1, False: 2}[event.pages]
    return alarm, event.at.timestamp() if event.at else float("inf")


def _kernel_row(case: Case, event: KernelEvent) -> KernelRow:
    code = event.event.number("xid")
    meaning = lookup(code) if code is not None else None
    return KernelRow(
        host=event.host,
        at=event.at,
        kind=event.event.kind,
        code=code,
        text=describe(event),
        pages=event.pages,
        severity=meaning.severity if meaning else None,
        action=meaning.action if meaning else None,
        note=meaning.note if meaning else None,
        pci_address=event.pci_address,
        ranks=fold_ranks(ranks_of(case, event)),
        line=event.line[:_LONGEST_LINE],
    )


def _nodes(case: Case, probes: tuple[str, ...]) -> Iterator[NodeRow]:
    asked = {probe: evidence for probe in probes if (evidence := case.evidence(probe))}
    for host in dict.fromkeys(host for evidence in asked.values() for host in evidence.asked):
        missing = {
            probe: evidence.coverage.missing[host]
            for probe, evidence in asked.items()
            if host in evidence.coverage.missing
        }
        answers = {probe: evidence.answers[host] for probe, evidence in asked.items() if host in evidence.answers}
        yield NodeRow(
            host=host,
            ranks=fold_ranks(case.ranks.on(host)),
            answered=tuple(
                probe for probe, evidence in asked.items() if host in evidence.asked and probe not in missing
            ),
            missing=missing,
            took_s=max((answer.took_s for answer in answers.values()), default=None),
            files={probe: answer.file for probe, answer in answers.items() if answer.file is not None},
        )


def _moments(case: Case, events: Iterable[KernelEvent]) -> Iterator[Moment]:
    yield Moment(at=case.now, source="triage", text="this triage began")
    step = newest_step(case)
    if step is not None and (ended := step.ended_at(case.now)):
        yield Moment(at=ended, source="logs", text=f"step {step.step:,} ended")
    for event in events:
        if event.at is not None and (event.pages is not False or part_of(event.event) in TROUBLE):
            yield Moment(at=event.at, source="kernel", text=f"{event.host}: {describe(event)}")
    for finding in case.findings:
        if finding.time is not None and not any(cite.probe in {"kernel", "logs"} for cite in finding.cites):
            yield Moment(at=finding.time, source=finding.kind, text=finding.text)
