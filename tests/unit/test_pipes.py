"""Whoever reads our output may go away, and so may a peer on the network: neither ends in a traceback or a death."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ONCALL = [sys.executable, "-c", "import sys; from oncall.cli import main; sys.exit(main())"]


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    with subprocess.Popen([*ONCALL, "schema", "triage"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (141, b"")


def test_a_client_that_breaks_off_cannot_end_the_exporter(tmp_path: Path) -> None:
    """Writing to a connection that the other side has reset raises the signal, whose default is to end the process."""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    options = ["exporter", "--run", "run42", "--port", "0", "--address", "127.0.0.1", str(tmp_path)]
    with subprocess.Popen([*ONCALL, *options], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    ignored = int(re.findall(r"SigIgn:\s*([0-9a-f]+)", status)[0], 16)
    assert ignored & 1 << (signal.SIGPIPE - 1)
    assert process.returncode == 0
