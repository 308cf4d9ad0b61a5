"""Explanations of Xid and SXid codes, and of the kernel logs that hold them, as text for a terminal."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping

from oncall.formats.event import Event, Json, Parsed
from oncall.formats.kernel_summary import should_page
from oncall.formats.xid_catalogue import FIRST_SXID, XidMeaning, lookup, lookup_sxid, source_names, sxid_unit
from oncall.neutral import neutral

_WIDTH = 100

_EFFECTS = {
    "info": "none on the job",
    "warn": "none yet; watch whether it returns",
    "job_fatal": "the job on that GPU dies or hangs; the node may be usable again",
    "node_fatal": "no job can use the GPU until somebody acts",
}
_ACTIONS = {
    "ignore": "nothing",
    "restart_app": "restart the job",
    "reset_gpu": "drain the node and reset the GPU",
    "drain_node": "drain the node and have it rebooted or looked at",
    "rma_check": "drain the node and have the GPU checked for replacement",
}
_LEVELS = {
    "soft": "leave the GPU alone or restart the job",
    "hard": "reset, reboot or inspect",
    "ask": "ask the vendor",
    "decode": "it depends on the fields of the line",
}


def code_text(code: int) -> str:
    """What one code means, its effect, what to do, whether to wake somebody, and what each source says."""
    return _text(_switch_lines(code) if code >= FIRST_SXID else _xid_lines(code))


def log_text(name: str, parsed: Parsed, *, empty: bool = False) -> str:
    """What a kernel log holds: each GPU with its first Xid explained, the other signs, and lines not understood.

    A log that is `empty` tells of no sound node either.
    """
    shown = "standard input" if name == "-" else name
    return _text(iter([f"{shown}: empty, so nothing is known"]) if empty else _log_lines(shown, parsed))


def _text(lines: Iterator[str]) -> str:
    return "".join(f"{neutral(part)}\n" for line in lines for part in line.split("\n"))


def _row(label: str, text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=f"  {label:<9} ", subsequent_indent=" " * 12)


def _xid_lines(code: int) -> Iterator[str]:
    meaning = lookup(code)
    if meaning is None:
        yield f"Xid {code}: in no table"
        yield _row(
            "note", "Drivers newer than every table are in use. Take it seriously until its text says otherwise."
        )
        return
    yield f"Xid {code}: {meaning.meaning or 'reserved, no meaning published'} ({meaning.mnemonic})"
    yield from _judgement(meaning)
    yield from _source_lines(meaning.sources)
    if meaning.sources_disagree:
        yield _row("disagree", "the sources do not agree on what to do:")
        for source, level in meaning.levels.items():
            yield _row("", f"{source}: {_LEVELS[level]}")


def _judgement(meaning: XidMeaning) -> Iterator[str]:
    if meaning.cause_class is not None:
        yield _row("class", meaning.cause_class)
    if meaning.severity is not None:
        yield _row("effect", _EFFECTS[meaning.severity])
    if meaning.action is not None:
        yield _row("do", _ACTIONS[meaning.action])
    yield _row("page", _page(meaning.page))
    if meaning.note is not None:
        yield _row("note", meaning.note)
    if meaning.unused:
        yield _row("note", "Listed as unused since Ampere, so that it appears at all is odd: show it to somebody.")


def _page(page: bool | None) -> str:
    return "unknown" if page is None else "yes" if page else "no"


def _source_lines(sources: Mapping[str, str]) -> Iterator[str]:
    names = source_names()
    for source, advice in sources.items():
        yield _row("source", f"{source}: {advice} ({names[source]})")


def _switch_lines(code: int) -> Iterator[str]:
    meaning, unit = lookup_sxid(code), sxid_unit(code)
    if meaning is None:
        yield f"SXid {code}: in no table"
    else:
        yield f"SXid {code}: {meaning.meaning or 'only its name is published'} ({meaning.mnemonic})"
    yield _row("unit", unit or "unknown")
    if meaning is None:
        return
    yield _row("page", f"{_page(meaning.page)}, unless the line itself says Fatal, Non-fatal or Correctable")
    if meaning.note is not None:
        yield _row("note", meaning.note)
    yield from _source_lines(meaning.sources)
    if meaning.disagree:
        yield _row("disagree", "the sources do not agree on what to do")


def _log_lines(name: str, parsed: Parsed) -> Iterator[str]:
    summary = parsed.summary or {}
    if not parsed.events:
        yield f"{name}: no event of a GPU, PCIe, network, memory, storage or stuck task in this log"
    else:
        count = "1 event" if len(parsed.events) == 1 else f"{len(parsed.events)} events"
        yield f"{name}: {count}; should it wake somebody: {_page_of(summary.get('page'))}"
    causes = summary.get("root_causes")
    for pci, code in causes.items() if isinstance(causes, dict) else ():
        yield ""
        yield from _gpu_lines(pci, code, parsed.events)
    others = [event for event in parsed.events if event.text("pci") is None or event.kind == "sxid"]
    if others:
        yield ""
        yield "other signs"
        yield from _other_lines(others)
    if parsed.unrecognised:
        yield ""
        yield f"not understood, though they claim an Xid: line {', '.join(map(str, parsed.unrecognised[:20]))}"
    if "stopped_after_line" in summary:
        yield f"too many events: what follows line {summary['stopped_after_line']} was not read"


def _page_of(value: Json) -> str:
    return _page(value) if isinstance(value, bool) else "unknown"


def _gpu_lines(pci: str, code: Json, events: tuple[Event, ...]) -> Iterator[str]:
    own = [event for event in events if event.text("pci") == pci and event.kind != "sxid"]
    uuid = next((event.text("uuid") for event in own if event.text("uuid")), None)
    yield f"GPU {pci}" + (f" ({uuid})" if uuid else "")
    yield from _xid_lines(code) if isinstance(code, int) else ()
    counts = Counter((event.kind, event.number("xid"), should_page(event)) for event in own)
    for (kind, xid, page), count in counts.items():
        if kind in {"gpu_uuid_map", "gpu_serial"}:
            continue
        first = next(event for event in own if (event.kind, event.number("xid")) == (kind, xid))
        what = f"Xid {xid}" if xid is not None else kind
        yield _row("line", f"{first.first_line}: {what}, {count} in all{_when(first)}; page: {_page(page)}")


def _when(event: Event) -> str:
    uptime_s = event.fields.get("uptime_s")
    stamp = event.text("ts") or (None if uptime_s is None else f"{uptime_s} s after boot")
    return f", first at {stamp}" if stamp else ""


def _other_lines(others: list[Event]) -> Iterator[str]:
    """One line for each kind of event, with the first of them in its own words."""
    counts = Counter(event.kind for event in others)
    for kind, count in counts.items():
        first = next(event for event in others if event.kind == kind)
        told = {name: value for name, value in first.fields.items() if name not in {"ts", "uptime_s", "host"}}
        said = ", ".join(f"{name} {value}" for name, value in told.items() if value not in (None, [], {}))
        yield _row("line", f"{first.first_line}: {kind}, {count} in all{_when(first)}: {said}")
