"""`dmesg -e` dates one line a minute and gives the others as time since the line before: sums them up for each event.

Format of util-linux 2.2x to 2.40 (sys-utils/dmesg.c, DMESG_TIMEFTM_RELTIME).
"""

import re
from collections.abc import Sequence

from oncall.formats.kernel_envelope import readings_of
from oncall.formats.kernel_links import Draft

_STAMPED = re.compile(
    rb"^[^\[\n]{0,40}\[(?:\s*\+\s*(?P<delta>\d{1,12}\.\d{6})|(?P<dated>[^\]\n]{1,30}\d\d:\d\d))\]", re.MULTILINE
)


def place_deltas(data: bytes, drafts: Sequence[Draft]) -> None:
    """Gives every event with a delta the dated line it counts from, as `dated_ts` and `since_dated_s`.

    Both are None for an event before the first dated line. Logs without such events are not looked at.
    """
    waiting = [draft for draft in drafts if "delta_s" in draft.fields]
    if not waiting:
        return
    waiting.reverse()
    dated_ts: str | None = None
    since_s = 0.0
    line_number, counted_to = 1, 0
    for stamp in _STAMPED.finditer(data):
        line_number += data.count(b"\n", counted_to, stamp.start())
        counted_to = stamp.start()
        if stamp["dated"] is not None:
            envelope, _ = next(readings_of(stamp[0].decode("utf-8", "replace")))
            dated_ts, since_s = envelope.ts, 0.0
            continue
        since_s += float(stamp["delta"])
        while waiting and waiting[-1].first_line <= line_number:
            placed = waiting.pop()
            placed.fields["dated_ts"] = dated_ts
            placed.fields["since_dated_s"] = None if dated_ts is None else round(since_s, 6)
        if not waiting:
            return
