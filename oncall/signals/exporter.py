"""The exporter's heart: looks at the files again and again, and answers each scrape with what it knows."""

import re
import threading
import time
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from oncall.signals.exposition import Families
from oncall.signals.run_signals import RunSignals
from oncall.signals.tail import RESCAN_S, Tail
from oncall.signals.torchrun_dirs import Attempts
from oncall.signals.writers import Writers

NAMES = re.compile(r".*\.jsonl|stdout\.log|stderr\.log")
"""Trainers' JSONL, torchtitan's structured logs, and what torchrun redirects."""


class Exporter(Collector):
    """One run's files on one node as Prometheus metrics.

    `look` is called from one thread, `collect` from any other. Files are opened for reading only.
    """

    def __init__(self, run: str, folders: Sequence[str], first_rank: int | None = None) -> None:
        """`folders` hold the run's files; `first_rank` is the global rank of this node's local rank 0, if known."""
        self._run = run
        self._tail = Tail(folders, NAMES)
        self._signals = RunSignals(first_rank)
        self._attempts = Attempts()
        self._writers = Writers()
        self._writer_count: int | None = None
        self._unread = self._files = self._overlong = 0
        self._looked: float | None = None
        self._counted: float | None = None
        self._lock = threading.Lock()
        self.unreadable: dict[str, str] = {}

    def look(self) -> None:
        """Read what was written since the last call; what cannot be read is in `unreadable` afterwards."""
        now = time.time()
        for chunk in self._tail.poll(now):
            with self._lock:
                self._signals.take(chunk)
        if self._counted is None or not 0 <= now - self._counted < RESCAN_S:
            self._attempts.take(self._tail.folders())
            self._writer_count = self._writers.count(self._tail.paths, now)
            self._counted = now
        self._unread = self._tail.unread_bytes()
        self._files, self._overlong = self._tail.files, self._tail.overlong_lines
        self.unreadable = dict(self._tail.unreadable)
        self._looked = now

    def collect(self) -> Iterator[Metric]:
        """All metrics as of the last look."""
        families = Families(self._run)
        with self._lock:
            for rank, state in self._signals.ranks().items():
                families.add_rank(rank, state)
            for local_rank, size in self._signals.log_bytes.items():
                families.add_log_bytes(local_rank, self._signals.global_rank(local_rank), size)
            lines, bad = self._signals.lines, self._signals.bad_lines
        families.add_launcher(self._attempts, self._writer_count)
        yield from families.metrics()
        yield self._count("lines", "Whole lines read", lines)
        yield self._count("bad_lines", "Lines that are no record, or longer than 1 MiB", bad + self._overlong)
        yield self._gauge("unread_bytes", "Bytes written but not read: backlog, or last lines not ended", self._unread)
        yield self._gauge("files", "Files known", self._files)
        yield self._gauge("unreadable", "Files and folders that could not be read", len(self.unreadable))
        if self._looked is not None:
            yield self._gauge("last_look_timestamp_seconds", "When the files were last looked at", self._looked)

    def _count(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"oncall_exporter_{name}", text, labels=["run"])
        family.add_metric([self._run], value)
        return family

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"oncall_exporter_{name}", text, labels=["run"])
        family.add_metric([self._run], value)
        return family
