"""One step of the playbook: its question, the verdict and why, the evidence, and how to ask the same by hand."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncall.console.lines import NOTHING, Row, Span, Tone, plain_row, say
from oncall.console.snapshot import Snapshot

if TYPE_CHECKING:
    from oncall.playbook.model import Conclusion, Playbook
    from oncall.readings.finding import Citation, Finding

_MOST_FINDINGS = 12
_MOST_CITATIONS = 4


def step_rows(snapshot: Snapshot, name: str | None) -> list[Row]:
    """What is known of a step, or of a conclusion, by its name in the playbook."""
    playbook = snapshot.playbook
    if playbook is None or name is None:
        return [plain_row(NOTHING, "no step yet: the playbook is being read", Tone.DIM)]
    if name in playbook.conclusions:
        return list(_conclusion(snapshot, playbook.conclusions[name]))
    return list(_step(snapshot, playbook, name))


def _step(snapshot: Snapshot, playbook: "Playbook", name: str) -> Iterator[Row]:
    known = snapshot.known
    walked = next((each for each in known.steps if each.step == name), None) if known else None
    step = playbook.steps.get(name)
    if step is None:
        return
    position = next((i for i, each in enumerate(known.steps, 1) if each.step == name), None) if known else None
    of = f"{position}/{len(known.steps)}  " if known and position else ""
    yield Row("ask", (Span(of, Tone.DIM), say(step.ask, Tone.STRONG)))
    if walked is not None:
        if walked.overruled_because is not None:
            yield _part("YOU SAY", f"{walked.verdict}, because {walked.overruled_because}", Tone.HERE)
            yield _part("READ", walked.reason)
        else:
            tone = Tone.WARN if walked.verdict == "unknown" else Tone.STRONG
            yield Row("verdict", (say(f"{walked.verdict.upper()}  ", tone), say(walked.reason)))
        yield from _evidence(snapshot, walked.findings, walked.reason)
        yield _by_hand(walked.by_hand)
        yield _part("THEN", walked.leads_to, Tone.DIM)
    elif snapshot.proposal is not None and name == snapshot.here:
        yield from _proposal(snapshot)
        yield _by_hand(step.by_hand)
    else:
        words = "being judged" if name == snapshot.here else "not reached: the walk did not need it"
        yield plain_row("state", words, Tone.DIM)
        yield _by_hand(step.by_hand)
        yield from (_part(verdict, target, Tone.DIM) for verdict, target in step.branches.items())


def _proposal(snapshot: Snapshot) -> Iterator[Row]:
    judgement, playbook = snapshot.proposal, snapshot.playbook
    if judgement is None or playbook is None or snapshot.here is None:
        return
    yield Row("verdict", (say(f"PROPOSED {judgement.verdict.upper()}  ", Tone.HERE), say(judgement.reason)))
    for finding in judgement.findings[:_MOST_FINDINGS]:
        yield from _finding("-", finding, said=judgement.reason)
    again = "   r asks again" if snapshot.start.live else ""
    yield plain_row("keys", f"enter confirms   o overrules   b steps back{again}", Tone.HERE)
    for verdict, target in playbook.steps[snapshot.here].branches.items():
        yield _part(verdict, target, Tone.STRONG if verdict == judgement.verdict else Tone.DIM)


def _evidence(snapshot: Snapshot, names: tuple[str, ...], said: str) -> Iterator[Row]:
    known = snapshot.known
    found = {each.id: each.finding for each in known.findings} if known else {}
    for name in names[:_MOST_FINDINGS]:
        if name in found:
            yield from _finding(name, found[name], said=said)
    if len(names) > _MOST_FINDINGS:
        yield plain_row("more", f"and {len(names) - _MOST_FINDINGS} more findings; all are in --json", Tone.DIM)


def _finding(name: str, finding: "Finding", *, said: str) -> Iterator[Row]:
    """A finding with its chain and its lines; its words are left out where they stand above already."""
    text = f"{finding.kind}, {finding.grade}" if finding.text in said else finding.text
    yield Row(f"finding {name}", (Span(f"{name:<4}", Tone.DIM), say(text)), hang=4, copies=finding.text)
    for hop in finding.chain:
        yield plain_row(f"hop {hop}", f"    {hop}", hang=6)
    if finding.next_check:
        yield plain_row(f"next {name}", f"    next  {finding.next_check}", hang=10)
    for cite in finding.cites[:_MOST_CITATIONS]:
        yield plain_row(f"cite {name}", f"    {_where(cite)}", Tone.DIM, hang=6, copies=cite.text or _where(cite))
    if len(finding.cites) > _MOST_CITATIONS:
        yield plain_row(f"cites {name}", f"    and {len(finding.cites) - _MOST_CITATIONS} more", Tone.DIM)


def _where(cite: "Citation") -> str:
    line = f":{cite.line}" if cite.line is not None else ""
    place = " ".join(part for part in (cite.probe, cite.host, f"{cite.file}{line}" if cite.file else None) if part)
    return f"{place}: {cite.text}" if cite.text else place


def _by_hand(command: str) -> Row:
    return Row("by hand", (Span("BY HAND ", Tone.DIM), say(command)), hang=8, copies=command)


def _part(label: str, text: str, tone: Tone = Tone.PLAIN) -> Row:
    return Row(f"part {label}", (say(f"{label:<8}", Tone.DIM), say(f" {text}", tone)), hang=9)


def _conclusion(snapshot: Snapshot, conclusion: "Conclusion") -> Iterator[Row]:
    report = snapshot.report
    if report is None:
        yield plain_row("title", conclusion.title, Tone.DIM)
        return
    yield plain_row("title", report.verdict.title, Tone.STRONG)
    yield plain_row("cause", report.verdict.cause)
    yield plain_row("rests", f"rests on {', '.join(report.verdict.rests_on) or 'no finding'}", Tone.DIM)
    yield from _evidence(snapshot, report.verdict.rests_on, report.verdict.cause)
