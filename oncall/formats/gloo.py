"""Errors of gloo, PyTorch's CPU backend, as they reach Python or ProcessGroupGloo's log.

Form: `RuntimeError: [path/gloo/transport/tcp/pair.cc:553] Connection closed by peer [address]:port. …` (PyTorch 2.1 to
2.13; third_party/gloo). Gloo has no watchdog: a rank that waits says nothing before its time-out.
"""

import re

from oncall.formats.envelope import read_message
from oncall.formats.lines import Line, Log
from oncall.formats.outcome import Outcome, event
from oncall.run.numbers import whole

_RAISED = re.compile(r"(?:RuntimeError|[\w.]*DistBackendError): ")
_THROWN = re.compile(r"\[\S*/gloo/\S+:\d+\] (?P<error>.*?)(?:\. This is typically|\s*$)")
_PEER = re.compile(r"\[(?P<host>[0-9A-Fa-f.:]+)\]:(?P<port>\d+)")


def read_gloo_error(line: Line, log: Log) -> Outcome:
    """Read a gloo error; gloo's own notes of a connection that it tries again are none."""
    message = read_message(line.text)
    thrown = _THROWN.search(message.text)
    if thrown is None or not (_RAISED.match(message.text) or message.severity in {"E", "F"}):
        return None
    peer = _PEER.search(thrown["error"])
    return event(
        "gloo_error",
        line,
        log,
        rank=line.rank if line.rank is not None else log.rank,
        ts=message.ts,
        error=thrown["error"],
        peer=peer["host"] if peer else None,
        peer_port=whole(peer["port"]) if peer else None,
    )
