"""Runs an exporter as a process: its HTTP server, its loop, and what it says on stderr."""

import os
import signal
import threading
from typing import TextIO

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from oncall.errors import UsageError
from oncall.signals.exporter import Exporter

_NICENESS = 10
"""The exporter gives way to the trainer's data loaders and to its launcher."""


def serve(exporter: Exporter, address: str, port: int, interval: float, messages: TextIO) -> None:
    """Look at the files every `interval` seconds and answer scrapes on `address`:`port` until SIGTERM or SIGINT.

    Writes one line when it listens and one for each file that it cannot read. Raises UsageError when the port is taken
    or the address is not this machine's.
    """
    registry = CollectorRegistry()
    registry.register(exporter)
    ProcessCollector(registry=registry)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    os.nice(_NICENESS)
    exporter.look()
    try:
        server, thread = start_http_server(port, address, registry)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot listen on {address}:{port}: {reason}", "choose another with --port") from error
    messages.write(f"listening on http://{address}:{server.server_port}/metrics\n")
    messages.flush()
    told: set[str] = set()
    while not stop.is_set():
        for path in sorted(exporter.unreadable.keys() - told):
            messages.write(f"cannot read {path!r}: {exporter.unreadable[path]}\n")
            messages.flush()
        told = set(exporter.unreadable)
        stop.wait(interval)
        exporter.look()
    server.shutdown()
    server.server_close()
    thread.join()
