"""The suspects as people: the origin first with one line a source, the victims folded, the unseen with the reason."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncall.console.glyphs import Glyphs
from oncall.console.lines import Row, Span, Tone, heading, plain_row, say
from oncall.console.snapshot import Snapshot
from oncall.run.nodes import expand_ranks, fold_hosts, fold_ranks, name_folded

if TYPE_CHECKING:
    from oncall.readings.suspects import Suspect
    from oncall.report.model import Account

_LABELS = {"flight_recorder": "dumps", "process": "process", "stack": "stack", "kernel": "kernel"}
_MOST = 16


def suspect_rows(snapshot: Snapshot, glyphs: Glyphs) -> list[Row]:
    """Origins, victims, the unseen; what is not known yet is said."""
    known = snapshot.known
    rows = [heading("SUSPECTS")]
    if known is None:
        return [*rows, plain_row("none", "nobody yet: evidence is on its way", Tone.DIM)]
    for suspect in known.suspects[:_MOST]:
        rows += _suspect(suspect, glyphs)
    if len(known.suspects) > _MOST:
        rows.append(plain_row("more", f"and {len(known.suspects) - _MOST} more", Tone.DIM))
    if not known.suspects:
        rows.append(plain_row("none", _nobody(snapshot), Tone.DIM))
    rows += _victims(known, glyphs)
    rows += _unseen(known, glyphs)
    return rows


def _nobody(snapshot: Snapshot) -> str:
    proposed = snapshot.proposal.findings if snapshot.proposal else ()
    ranks = {rank for finding in proposed if str(finding.role) == "origin" for rank in finding.ranks}
    if ranks:
        return f"{name_folded(fold_ranks(ranks))}, if you confirm"
    if snapshot.report is None:
        return "nobody so far"
    return "nobody is named" if str(snapshot.report.verdict.ending) != "nothing-wrong" else "nobody"


def _suspect(suspect: "Suspect", glyphs: Glyphs) -> Iterator[Row]:
    gpu = f" gpu{suspect.gpu_index}" if suspect.gpu_index is not None else ""
    where = f"{suspect.host or 'host not known'}{gpu}"
    place = " ".join(f"{name}={index}" for name, index in suspect.coordinate.items())
    spans = (
        Span(f"{glyphs.origin} ", Tone.BAD),
        Span(f"rank {suspect.rank}  ", Tone.STRONG),
        say(where),
        say(f"  {place}" if place else "", Tone.DIM),
    )
    copies = suspect.host or str(suspect.rank)
    yield Row(f"rank {suspect.rank}", spans, copies=copies, about=suspect.rank)
    for source, words in suspect.says.items():
        label = _LABELS.get(source, source)
        key = f"rank {suspect.rank} {source}"
        unseen = words.startswith("not seen")
        tone = Tone.WARN if unseen else Tone.PLAIN
        yield Row(key, (Span(f"  {label:<8}", Tone.DIM), say(words, tone)), hang=10, copies=words, about=suspect.rank)


def _victims(known: "Account", glyphs: Glyphs) -> Iterator[Row]:
    if known.waiting_ranks:
        count = len(expand_ranks(known.waiting_ranks))
        noun = "victim" if count == 1 else "victims"
        yield Row("victims", (Span(f"{glyphs.victims} {count:,} {noun}  ", Tone.PLAIN), Span("wait", Tone.DIM)))
        yield plain_row("victims who", f"  ranks {known.waiting_ranks}", Tone.DIM, hang=4)


def _unseen(known: "Account", glyphs: Glyphs) -> Iterator[Row]:
    """Nodes that lack an answer, equal reasons together; their ranks cannot be cleared."""
    if known.unseen_ranks:
        yield Row(
            "unseen", (Span(f"{glyphs.unknown} not seen  ", Tone.WARN), say(f"ranks {known.unseen_ranks}")), hang=4
        )
    probes: dict[tuple[str, str], list[str]] = {}
    for probe, coverage in known.coverage.items():
        for host, reason in coverage.missing.items():
            probes.setdefault((host, reason), []).append(probe)
    alike: dict[tuple[str, str], list[str]] = {}
    for (host, reason), lacking in probes.items():
        alike.setdefault((reason, ", ".join(lacking)), []).append(host)
    for (reason, lacking_too), hosts in alike.items():
        text = f"  {fold_hosts(hosts)}: {reason} ({lacking_too})"
        yield plain_row(f"unseen {reason} {lacking_too}", text, Tone.WARN, hang=4)
