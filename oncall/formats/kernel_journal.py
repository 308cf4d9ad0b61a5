"""Kernel messages of the systemd journal as anchors: what the kernel's own clock showed at which time of day.

The journal keeps the message's stamp by the kernel's clock and when it took the message in, by the system's clock
(systemd 252, src/journal/journald-kmsg.c; `journalctl -o json`, fields of systemd.journal-fields(7)).
"""

from datetime import UTC, datetime, timedelta

import msgspec

from oncall.formats.kernel_time import Anchor
from oncall.run.numbers import whole

_MOST = 2_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Entry(msgspec.Struct):
    taken_in_us: str | None = msgspec.field(default=None, name="__REALTIME_TIMESTAMP")
    kernel_us: str | None = msgspec.field(default=None, name="_SOURCE_MONOTONIC_TIMESTAMP")


def read_anchors(text: str) -> tuple[Anchor, ...]:
    """The anchors of `journalctl -k -o json`, in its order; a line of any other form is passed over."""
    decoder = msgspec.json.Decoder(_Entry)
    found = []
    for line in text.split("\n")[:_MOST]:
        try:
            entry = decoder.decode(line)
            taken_in_us, kernel_us = whole(entry.taken_in_us), whole(entry.kernel_us)
            if taken_in_us is not None and kernel_us is not None and kernel_us >= 0:
                found.append(Anchor(kernel_us / 1e6, _EPOCH + timedelta(microseconds=taken_in_us)))
        except (msgspec.MsgspecError, ValueError, OverflowError):
            continue
    return tuple(found)
