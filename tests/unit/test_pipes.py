"""Whoever reads our output may go away, and so may a peer on the network: neither ends in a traceback or a death."""

import re
import signal
import socket
import struct
import subprocess
import sys
import urllib.request
from pathlib import Path

ONCALL = [sys.executable, "-c", "import sys; from oncall.cli import main; sys.exit(main())"]


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    with subprocess.Popen([*ONCALL, "schema", "triage"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (141, b"")


def test_a_client_that_breaks_off_does_not_end_the_exporter(tmp_path: Path) -> None:
    options = ["exporter", "--run", "run42", "--port", "0", "--address", "127.0.0.1", str(tmp_path)]
    with subprocess.Popen([*ONCALL, *options], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)\S*", process.stderr.readline())
        assert found is not None
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", int(found[1]))) as client:
                # Linger of no time: the connection is reset while the answer is on its way.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        with urllib.request.urlopen(found[0], timeout=10) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 0
