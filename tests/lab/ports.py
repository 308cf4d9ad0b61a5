"""Ports of servers: kept free for those that have to be told theirs, and read from the log of those that choose."""

import re
import socket
import subprocess
import time
from pathlib import Path

START_S = 60.0


def reserve(host: str, port: int = 0) -> socket.socket:
    """A socket that has a port and does not listen; a port of 0 is one that nobody has on this address.

    A server that asks for the port with SO_REUSEADDR gets it (socket(7)); meanwhile no connection and no other
    search for a free port does.
    """
    reserved = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, port))
    except OSError:
        reserved.close()
        raise
    return reserved


def port_of(reserved: socket.socket) -> int:
    """The port that a socket has."""
    return int(reserved.getsockname()[1])


def address_told(log: Path, process: "subprocess.Popen[bytes]") -> str:
    """HOST:PORT of a server that was started with port 0, once its log says so (Prometheus and Alertmanager)."""
    until = time.monotonic() + START_S
    while not (told := re.search(r'msg="Listening on".* address=(\S+)', log.read_text())):
        assert process.poll() is None, f"it ended:\n{log.read_text()}"
        assert time.monotonic() < until, f"it does not listen:\n{log.read_text()}"
        time.sleep(0.05)
    return told[1]
