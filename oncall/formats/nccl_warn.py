"""Lines that the NCCL library itself prints at NCCL_DEBUG=WARN: InfiniBand and socket trouble.

Form: `host:pid:tid [cuda device] source.cc:line NCCL WARN text` (NCCL 2.10 to 2.27, debug.cc).
"""

import re

from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.outcome import Near, Outcome, event
from oncall.run.numbers import whole

_HEAD = re.compile(
    r"(?:\[[^\]]*\] )?(?P<host>[\w.-]+):(?P<pid>\d+):(?P<tid>\d+) \[(?P<dev>\d+)\] (?:\S+:\d+ )?NCCL WARN (?P<text>.*)"
)
_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "nccl_ib_error",
        re.compile(
            r"NET/IB ?: .*completion (?:from peer (?P<peer>[^<\s]+)<(?P<peer_port>\d+)> )?"
            r"with (?:status=|error )(?P<status>\d+).*?vendor err (?P<vendor_err>\d+)(?:.*?\((?P<direction>\w+)\))?"
        ),
    ),
    (
        "nccl_ib_async_event",
        re.compile(r"NET/IB ?: (?P<device>[\w-]+):(?P<port>\d+) Got .*?async (?:fatal )?event ?: (?P<event>.+?)\s*$"),
    ),
    (
        "nccl_socket_error",
        re.compile(
            r"(?:Net|socket\w*) ?:? .*?(?:from|to|by|with) (?:remote peer )?(?P<peer>[\w.:-]+?)<(?P<peer_port>\d+)>"
            r"(?:.*? ?: (?P<error>[^:]+?)\s*$)?",
            re.IGNORECASE,
        ),
    ),
)
"""Kind, and the words that tell it; the named groups are the event's fields."""

_NUMBERS = frozenset({"peer_port", "status", "vendor_err", "port"})


def read_nccl_warn(line: Line, log: Log) -> Outcome:
    """Read one NCCL WARN line; any WARN of unknown words is a near miss, an INFO line is nothing."""
    head = _HEAD.match(line.text)
    if head is None:
        return None
    fields: dict[str, Json] = {
        "rank": line.rank if line.rank is not None else log.rank,
        "host": head["host"],
        "pid": whole(head["pid"]),
        "tid": whole(head["tid"]),
        "cuda_dev": whole(head["dev"]),
    }
    for kind, pattern in _RULES:
        if found := pattern.search(head["text"]):
            said = found.groupdict()
            fields |= {name: whole(text) if name in _NUMBERS else text for name, text in said.items()}
            return event(kind, line, log, **fields)
    return Near.MISS
