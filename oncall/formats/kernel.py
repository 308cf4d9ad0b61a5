"""Kernel logs: dmesg in all its time formats, journalctl, rsyslog's kern.log, /dev/kmsg, through any collector.

The buffer is searched for the literals that lines of interest hold, and only those lines are taken apart, so a log
without any costs little more than reading it.
"""

import re
from collections.abc import Iterator, Sequence

from oncall.formats import (
    kernel_memory,
    kernel_nic,
    kernel_nvrm,
    kernel_oom,
    kernel_pcie,
    kernel_stall,
    kernel_storage,
    kernel_sxid,
    kernel_xid,
)
from oncall.formats.event import Parsed
from oncall.formats.kernel_delta import place_deltas
from oncall.formats.kernel_envelope import Envelope, readings_of
from oncall.formats.kernel_line import Reading, Signature
from oncall.formats.kernel_links import Draft, link
from oncall.formats.kernel_summary import summarise

SIGNATURES: tuple[Signature, ...] = (
    *kernel_nvrm.SIGNATURES,
    *kernel_xid.SIGNATURES,
    *kernel_sxid.SIGNATURES,
    *kernel_pcie.SIGNATURES,
    *kernel_nic.SIGNATURES,
    *kernel_oom.SIGNATURES,
    *kernel_memory.SIGNATURES,
    *kernel_stall.SIGNATURES,
    *kernel_storage.SIGNATURES,
)

MAX_EVENTS = 200_000
"""Events kept of one log; what a node can print in hours of a storm, and a bound on what a hostile file can cost."""
_MAX_LINE = 4096
"""Bytes of a line that are looked at: printk's own limit is 1024 (kernel/printk, LOG_LINE_MAX), plus envelopes."""
_COLOUR = re.compile(rb"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]")
"""What `dmesg --color=always` puts between the parts of a line (ECMA-48, control sequences)."""
_CLAIM = re.compile(r"(?:NVRM: |nvidia_dev_xid: )Xid \(|nvidia-nvswitch\d{1,4}: SXid \(")


def read_kernel(data: bytes, name: str) -> Parsed:
    """All that a kernel log says about GPUs, links, memory, storage and stuck tasks.

    `name` is the file's name as its events carry it. The summary is that of `kernel_summary.summarise`, with
    `stopped_after_line` where a log held more than MAX_EVENTS. A line that claims an Xid or SXid in a form that cannot
    be read is listed as unrecognised. Nothing raises: any bytes are a log.
    """
    data = _COLOUR.sub(b"", data) if b"\x1b" in data else data
    drafts: list[Draft] = []
    unread: list[int] = []
    line_number, counted_to = 1, 0
    for start, end, signatures in _candidates(data):
        line_number += data.count(b"\n", counted_to, start)
        counted_to = start
        draft = _read_line(data, start, end, line_number, signatures)
        if isinstance(draft, Draft):
            drafts.append(draft)
        elif draft:
            unread.append(line_number)
        if len(drafts) == MAX_EVENTS:
            break
    place_deltas(data, drafts)
    events = tuple(draft.close(name) for draft in link(drafts))
    summary = summarise(events) if events else None
    if summary is not None and len(drafts) == MAX_EVENTS:
        summary["stopped_after_line"] = line_number
    return Parsed(events, tuple(unread), summary)


def _candidates(data: bytes) -> Iterator[tuple[int, int, list[Signature]]]:
    """Start and end of every line that holds a needle, in order, with the signatures whose needles it holds."""
    held: dict[int, list[Signature]] = {}
    ends: dict[int, int] = {}
    for signature in SIGNATURES:
        at = data.find(signature.needle)
        while at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            held.setdefault(start, []).append(signature)
            end = data.find(b"\n", at)
            ends[start] = end = len(data) if end < 0 else end
            at = data.find(signature.needle, end)
    for start in sorted(held):
        yield start, ends[start], held[start]


def _read_line(data: bytes, start: int, end: int, line_number: int, signatures: Sequence[Signature]) -> Draft | bool:
    """The event of one line; else whether it claims to be one."""
    claims = False

    def following(count: int) -> list[str]:
        return list(_messages_after(data, end, count))

    for envelope, message in readings_of(_text(data, start, end)):
        for signature in signatures:
            reading = signature.read(message, following)
            if reading is not None:
                return _draft(reading, envelope, line_number)
        claims = claims or _CLAIM.match(message) is not None
    return claims


def _draft(reading: Reading, envelope: Envelope, line_number: int) -> Draft:
    fields = {**envelope.as_fields(), **reading.fields}
    return Draft(reading.kind, line_number, line_number + reading.lines_after, fields)


def _messages_after(data: bytes, end: int, count: int) -> Iterator[str]:
    for _ in range(count):
        start = end + 1
        if start >= len(data):
            return
        found = data.find(b"\n", start)
        end = len(data) if found < 0 else found
        yield next(readings_of(_text(data, start, end)))[1]


def _text(data: bytes, start: int, end: int) -> str:
    return data[start : min(end, start + _MAX_LINE)].decode("utf-8", "replace").rstrip("\r")
