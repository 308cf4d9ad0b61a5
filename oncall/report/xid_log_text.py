"""Explanations of kernel logs that hold Xid or SXid codes, as text for a terminal."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from oncall.formats.event import Event, Json, Parsed
from oncall.formats.kernel_summary import should_page
from oncall.readings.kernel_words import said
from oncall.report.xid_text import page_words, row, switch_lines, text_of, xid_lines

_MOST_ROWS = 20
_NAMES_ONLY = frozenset({"gpu_uuid_map", "gpu_serial"})
_AT_ONCE = {
    "IGNORE": "nothing",
    "RESET_GPU": "reset the GPU",
    "XID_154_EVAL": "do what the Xid 154 of that GPU says",
}
_AFTERWARDS = {
    "IGNORE": "nothing",
    "CHECK_NVLINK_FAILURE_FLOW": "follow the vendor's steps for a failed NVLink",
    "CONTACT_SUPPORT": "ask the vendor",
    "INVESTIGATE_HOST": "look at the host",
    "INVESTIGATE_LINK_SI": "look at the link's signal",
    "INVESTIGATE_LINK_SI_AND_CABLES": "look at the link's signal and its cables",
    "INVESTIGATE_PEER_DEVICE": "look at the device at the other end",
    "INVESTIGATE_SW/USER": "look at the software and the job",
    "INVESTIGATE_SW_USER": "look at the software and the job",
    "INVESTIGATE_SW_USER_LINK_SI": "look at the software, the job and the link's signal",
    "REPORT_ISSUE (if seen >1 per day)": "report it if it comes more than once a day",
    "SYMPATHETIC_REPORT_SOLO": "nothing if it follows another; report it if it comes alone",
}
"""What NVIDIA's catalogue (2025-10) calls the immediate and the follow-up action for an NVLink5 error, in words."""


def log_text(name: str, parsed: Parsed, *, empty: bool = False) -> str:
    """What a kernel log holds: each GPU with its first Xid explained, each code of a switch, the other signs.

    Lines not understood come last. A log that is `empty` tells of no sound node either.
    """
    shown = "standard input" if name == "-" else name
    return text_of([f"{shown}: empty, so nothing is known"] if empty else _log_lines(shown, parsed))


def _log_lines(name: str, parsed: Parsed) -> Iterator[str]:
    summary, events = parsed.summary or {}, parsed.events
    if not events:
        yield f"{name}: no event of a GPU, PCIe, network, memory, storage or stuck task in this log"
    else:
        count = "1 event" if len(events) == 1 else f"{len(events)} events"
        page = summary.get("page")
        yield f"{name}: {count}; should it wake somebody: {page_words(page if isinstance(page, bool) else None)}"
    causes = summary.get("root_causes")
    first_codes = causes if isinstance(causes, dict) else {}
    for pci, own in _by(events, lambda event: None if event.kind == "sxid" else event.text("pci")).items():
        yield from _gpu_lines(str(pci), first_codes.get(str(pci)), own)
    for code, own in _by(events, lambda event: event.number("sxid")).items():
        yield from _switch_code_lines(int(str(code)), own)
    yield from _other_lines([event for event in events if event.text("pci") is None])
    if parsed.unrecognised:
        yield ""
        yield f"not understood, though they claim an Xid: line {', '.join(map(str, parsed.unrecognised[:20]))}"
    if "stopped_after_line" in summary:
        yield f"too many events: what follows line {summary['stopped_after_line']} was not read"


def _by(events: Iterable[Event], key: Callable[[Event], Hashable]) -> dict[Hashable, list[Event]]:
    """The events that have a key, by key, in their order."""
    groups: dict[Hashable, list[Event]] = {}
    for event in events:
        found = key(event)
        if found is not None:
            groups.setdefault(found, []).append(event)
    return groups


def _gpu_lines(pci: str, code: Json, own: Sequence[Event]) -> Iterator[str]:
    """The first code of a GPU explained, then what its lines tell."""
    told = [event for event in own if event.kind not in _NAMES_ONLY]
    if not told:
        return
    uuid = next((event.text("uuid") for event in own if event.text("uuid")), None)
    yield ""
    yield f"GPU {pci}" + (f" ({uuid})" if uuid else "")
    yield from xid_lines(code) if isinstance(code, int) else ()
    yield from _rows(told)


def _switch_code_lines(code: int, own: Sequence[Event]) -> Iterator[str]:
    yield ""
    yield from switch_lines(code)
    yield from _rows(own)


def _other_lines(others: Sequence[Event]) -> Iterator[str]:
    if others:
        yield ""
        yield "other signs"
        yield from _rows(others)


def _rows(events: Iterable[Event]) -> Iterator[str]:
    """One row for all lines that say the same, with the first of them, and what an NVLink5 error's words decode to."""
    groups = _by(events, lambda event: (said(event), _switch_place(event), _decoded(event), should_page(event)))
    for alike in islice(groups.values(), _MOST_ROWS):
        first = alike[0]
        times = f", {len(alike)} in all" if len(alike) > 1 else ""
        what = f"{said(first)}{_switch_place(first)}{times}{_when(first)}"
        yield row("line", f"{first.first_line}: {what}; page: {page_words(should_page(first))}")
        if decoded := _decoded(first):
            yield row("decoded", decoded)
    if len(groups) > _MOST_ROWS:
        yield row("", f"and {len(groups) - _MOST_ROWS} more kinds of lines")


def _when(event: Event) -> str:
    uptime_s = event.fields.get("uptime_s")
    stamp = event.text("ts") or (None if uptime_s is None else f"{uptime_s} s after boot")
    return f", first at {stamp}" if stamp else ""


def _switch_place(event: Event) -> str:
    """Which switch an SXid is of, and which of its engines; empty for other events."""
    if event.kind != "sxid":
        return ""
    engine = event.number("engine")
    part = "" if engine is None else f", engine {engine}.{event.number('sub_engine')}"
    return f" of switch {event.number('switch')} ({event.text('pci')}{part})"


def _decoded(event: Event) -> str:
    """What the words of an NVLink5 error mean by NVIDIA's table; empty for other events."""
    shown, decoded = event.fields.get("nvlink5"), event.fields.get("nvlink5_decode")
    if not isinstance(shown, dict):
        return ""
    words = f"words {shown['intr_info'] or '?'} {shown['error_status'] or '?'}"
    if not isinstance(decoded, dict):
        return f"{words}: of a unit that no table knows, or cut short"
    status = f"status {decoded['status']}, layout {decoded['layout'] or 'unknown'}"
    if decoded["immediate"] is None:
        return f"{words}: {status}; no table has a row for them"
    at_once = _words(_AT_ONCE, decoded["immediate"])
    afterwards = _words(_AFTERWARDS, decoded["follow_up"])
    return f"{words}: {status}; at once: {at_once}; afterwards: {afterwards}; side: {decoded['side']}"


def _words(table: Mapping[str, str], action: Json) -> str:
    return table.get(str(action), str(action))
