"""Measures the console on an incident of 8,192 ranks: first paint, key to repaint, stalls of its loop, memory.

    python tests/bench/console.py [nodes]

The console runs in a terminal of its own (a pseudo-terminal of 200 by 60) and is driven by keys while its other process
reads the evidence of all nodes. Memory is the sum of both, each at its peak. The limits are those of a slow ssh link
and of a hand that waits: it exits 1 beyond them.
"""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

LIMITS = {"first paint ms": 500.0, "key to repaint p95 ms": 50.0, "longest stall ms": 100.0, "memory MiB": 300.0}

_BEAT_S = 0.005
_LEAST_KEYS = 120
_LEAST_S = 60.0
"""Longer than the walk takes, so that keys meet every step of it."""
_KEYS = (b"5", b"1", b"6", b"1")


def shown(bundle: Path, report: Path) -> None:
    """The child: the console itself, with a task that notes how late its loop is."""
    from oncall.bundle.store import Bundle  # noqa: PLC0415
    from oncall.console.app import BundleConsole, first_snapshot  # noqa: PLC0415
    from oncall.console.host import Looks  # noqa: PLC0415

    class Watched(BundleConsole):
        answered_s: float | None = None

        def on_mount(self) -> None:
            super().on_mount()
            self.stalls: list[float] = []
            self.begun = time.monotonic()
            self.watch = asyncio.create_task(self.beat())

        async def action_quit(self) -> None:
            self.watch.cancel()
            await super().action_quit()

        async def beat(self) -> None:
            while True:
                before = time.monotonic()
                await asyncio.sleep(_BEAT_S)
                self.stalls.append(time.monotonic() - before - _BEAT_S)
                if self.answered_s is None and self.snapshot.report is not None:
                    self.answered_s = time.monotonic() - self.begun

    opened = Bundle.open(bundle)
    console = Watched(opened, first_snapshot(opened, live=False, read_only=True), Looks(theme="dark"))
    console.run()
    told = console.snapshot.report
    kept = {
        "stall_s": max(console.stalls),
        "stalls over 50 ms": sum(stall > 0.05 for stall in console.stalls),
        "answered_s": console.answered_s,
        "headline": told.headline if told else None,
    }
    report.write_text(json.dumps(kept))


class Terminal:
    """A pseudo-terminal with a program in it."""

    def __init__(self, command: list[str]) -> None:
        self.started = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            os.execv(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))

    def until(self, mark: bytes, seconds: float) -> float | None:
        """Seconds until the program has written this, None when it does not in time."""
        begun, seen = time.monotonic(), b""
        while (left := begun + seconds - time.monotonic()) > 0:
            ready, _, _ = select.select([self.fd], [], [], left)
            if not ready:
                return None
            try:
                seen += os.read(self.fd, 65536)
            except OSError:
                return None
            if mark in seen:
                return time.monotonic() - begun
            seen = seen[-200_000:]
        return None

    def drain(self, seconds: float) -> None:
        """Take whatever comes for a while."""
        self.until(b"\0never\0", seconds)

    def peaks_mib(self) -> dict[str, float]:
        """The most memory that the program and the process of its walk have each held (VmHWM)."""
        listings = Path(f"/proc/{self.pid}/task").glob("*/children")
        children = [child for listing in listings for child in listing.read_text().split()]
        return {"screen": _peak_mib(self.pid), "walk": sum(_peak_mib(int(child)) for child in children)}


def _peak_mib(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


_ANSWERS = {b"5": b"filter", b"6": b"filter", b"1": b"SUSPECTS"}
"""What stands on each screen and not on the one before it."""


def measure(bundle: Path, report: Path) -> dict[str, float | str | None]:
    """Run it once."""
    terminal = Terminal([sys.executable, __file__, "--shown", str(bundle), str(report)])
    painted = terminal.until(b"run42", 30.0)
    times: list[float] = []
    begun = time.monotonic()
    while len(times) < _LEAST_KEYS or time.monotonic() < begun + _LEAST_S:
        for key in _KEYS:
            terminal.drain(0.05)
            os.write(terminal.fd, key)
            took = terminal.until(_ANSWERS[key], 5.0)
            if took is None:
                raise SystemExit(f"{key!r} was not answered within 5 s")
            times.append(took)
    peaks = terminal.peaks_mib()
    os.write(terminal.fd, b"q")
    terminal.drain(30.0)
    os.waitpid(terminal.pid, 0)
    kept = json.loads(report.read_text())
    p95 = statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
    return {
        "first paint ms": None if painted is None else painted * 1000,
        "key to repaint p95 ms": p95 * 1000,
        "longest stall ms": kept["stall_s"] * 1000,
        "memory MiB": sum(peaks.values()),
        "memory of the screen MiB": peaks["screen"],
        "memory of the walk MiB": peaks["walk"],
        "stalls over 50 ms": kept["stalls over 50 ms"],
        "keys": len(times),
        "answer after s": kept["answered_s"],
        "answer": kept["headline"],
    }


def main() -> int:
    """Make the incident, measure, print, compare with the limits."""
    from synthetic_incident import make_incident  # noqa: PLC0415

    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    with tempfile.TemporaryDirectory() as folder:
        bundle = make_incident(Path(folder) / "bundle", nodes)
        subprocess.run(["sync"], check=False)
        found = measure(bundle.path, Path(folder) / "report.json")
    load = os.getloadavg()[0]
    print(f"{nodes} nodes, {nodes * 8} ranks; load of the machine {load:.1f} on {os.cpu_count()} cores")
    beyond = 0
    for name, value in found.items():
        limit = LIMITS.get(name)
        over = limit is not None and (value is None or (isinstance(value, float) and value > limit))
        beyond += over
        text = f"{value:,.0f}" if isinstance(value, float) else str(value)
        print(f"  {name:24} {text:>10}" + (f"   limit {limit:,.0f}{'  BEYOND' if over else ''}" if limit else ""))
    return 1 if beyond else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--shown"]:
        shown(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        sys.exit(main())
