"""Lines that the NCCL library itself prints at NCCL_DEBUG=WARN: InfiniBand and socket trouble.

Form: `host:pid:tid [cuda device] source.cc:line NCCL WARN text` (NCCL 2.10 to 2.27, debug.cc).
"""

import re

from oncall.formats.lines import Line, Log
from oncall.formats.outcome import Near, Outcome, event, whole

_HEAD = re.compile(
    r"(?:\[[^\]]*\] )?(?P<host>[\w.-]+):(?P<pid>\d+):(?P<tid>\d+) \[(?P<dev>\d+)\] (?:\S+:\d+ )?NCCL WARN (?P<text>.*)"
)
_COMPLETION = re.compile(
    r"NET/IB ?: .*completion (?:from peer (?P<peer>[^<\s]+)<(?P<port>\d+)> )?with (?:status=|error )(?P<status>\d+)"
    r".*?vendor err (?P<vendor>\d+)(?:.*?\((?P<direction>\w+)\))?"
)
_ASYNC = re.compile(r"NET/IB ?: (?P<device>[\w-]+):(?P<port>\d+) Got .*?async (?:fatal )?event ?: (?P<event>.+?)\s*$")
_SOCKET = re.compile(
    r"(?:Net|socket\w*) ?:? .*?(?:from|to|by|with) (?:remote peer )?(?P<peer>[\w.:-]+?)<(?P<port>\d+)>"
    r"(?:.*? ?: (?P<error>[^:]+?)\s*$)?",
    re.IGNORECASE,
)


def read_nccl_warn(line: Line, log: Log) -> Outcome:
    """Read one NCCL WARN line; any WARN of unknown words is a near miss, an INFO line is nothing."""
    head = _HEAD.match(line.text)
    if head is None:
        return None
    place = {
        "rank": line.rank if line.rank is not None else log.rank,
        "host": head["host"],
        "pid": whole(head["pid"]),
        "tid": whole(head["tid"]),
        "cuda_dev": whole(head["dev"]),
    }
    text = head["text"]
    if match := _COMPLETION.search(text):
        return event(
            "nccl_ib_error",
            line,
            log,
            **place,
            peer=match["peer"],
            peer_port=whole(match["port"]),
            status=whole(match["status"]),
            vendor_err=whole(match["vendor"]),
            direction=match["direction"],
        )
    if match := _ASYNC.search(text):
        return event(
            "nccl_ib_async_event",
            line,
            log,
            **place,
            device=match["device"],
            port=whole(match["port"]),
            event=match["event"],
        )
    if match := _SOCKET.search(text):
        return event(
            "nccl_socket_error",
            line,
            log,
            **place,
            peer=match["peer"],
            peer_port=whole(match["port"]),
            error=match["error"],
        )
    return Near.MISS
