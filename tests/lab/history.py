"""A run's past as Prometheus would have scraped it: made up second by second, and served by a real Prometheus."""

import json
import math
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from oncall.signals.trainer_signals import PREFIX
from oncall.signals.vocabulary import metric

from .ports import address_told

RUN = "run42"
PER_HOST = 4
STEP_S = 12.0
CHANGED_S = 1200.0
"""The change that slows the run down lies this far back."""
AHEAD_S = 900.0
"""How long a test may take, on a machine that is busy with others."""

Labels = dict[str, str]
Value = Callable[[float], float]
"""Seconds from now (negative) → value."""


@dataclass
class History:
    """Series of a run with `world` ranks, healthy until told otherwise.

    `past_s` is how far back they reach, `reach_s` the same for single signals. They end at `until_s`, the trainer's at
    `trainer_until_s`: ahead of now, so that there is a newest sample for as long as a test takes. A Prometheus that is
    to scrape too takes no sample from before the end of its past.
    """

    world: int = 8
    step_s: float = STEP_S
    per_host: int = PER_HOST
    past_s: float = 3 * 3600.0
    every_s: float = 30.0
    series: dict[tuple[str, tuple[tuple[str, str], ...]], Value] = field(default_factory=dict)
    until_s: float = AHEAD_S
    trainer_until_s: float = AHEAD_S
    reach_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for rank in range(self.world):
            self._healthy_rank(rank)
        for host in self.hosts:
            self._healthy_host(host)

    @property
    def hosts(self) -> list[str]:
        return [self.host_of(rank) for rank in range(0, self.world, self.per_host)]

    def host_of(self, rank: int) -> str:
        return host_of(rank, self.per_host)

    def of_rank(self, rank: int) -> Labels:
        return of_rank(rank, self.per_host)

    def of_gpu(self, rank: int) -> Labels:
        return of_gpu(rank, self.per_host)

    def put(self, signal: str, labels: Labels, value: float, *, since: float | None = None) -> None:
        """A gauge, with a noise of half a percent; with `since` it takes this value from then on."""
        self._put(signal, labels, lambda at: value * (1 + 0.005 * math.sin(at / 7.0 + value)), since)

    def put_exact(self, signal: str, labels: Labels, value: float, *, since: float | None = None) -> None:
        """A gauge without noise: a count, a state, a bit mask."""
        self._put(signal, labels, lambda _: value, since)

    def grow(self, signal: str, labels: Labels, per_s: float, *, since: float | None = None) -> None:
        """A counter that grows by this much a second; with `since` from then on, and at its old pace before."""
        start = -self.past_s if since is None else since
        base = 0.0 if since is None else self.series[metric(signal), _key(labels)](since)
        self._put(signal, labels, lambda at: base + math.floor(per_s * (at - start)), since)

    def drop(self, signal: str) -> None:
        """As if nobody had ever exported this signal."""
        for key in [key for key in self.series if key[0] == metric(signal)]:
            del self.series[key]

    def end(self, signal: str, labels: Labels, at: float) -> None:
        """This series has no sample after `at`."""
        key = (metric(signal), _key(labels))
        old = self.series[key]
        self.series[key] = lambda when: old(when) if when <= at else math.nan

    def phase(self, name: str, rank: int, seconds: float, *, since: float | None = None) -> None:
        """A span of a rank."""
        self.put("span_seconds", {**self.of_rank(rank), "name": name}, seconds, since=since)

    def write(self, path: Path) -> None:
        """As OpenMetrics text that `promtool tsdb create-blocks-from openmetrics` reads; NaN stands for no sample."""
        now = time.time()
        reach_s = {metric(signal): past_s for signal, past_s in self.reach_s.items()}
        with path.open("w") as out:
            for (name, labels), value in self.series.items():
                shown = ",".join(f"{key}={json.dumps(told)}" for key, told in labels)
                for index in range(
                    -int(reach_s.get(name, self.past_s) / self.every_s), int(AHEAD_S / self.every_s) + 1
                ):
                    at = index * self.every_s
                    if at > (self.trainer_until_s if name.startswith(PREFIX) else self.until_s):
                        break
                    sample = value(at)
                    if not math.isnan(sample):
                        out.write(f"{name}{{{shown}}} {sample:.10g} {now + at:.3f}\n")
            out.write("# EOF\n")

    def _put(self, signal: str, labels: Labels, value: Value, since: float | None) -> None:
        key = (metric(signal), _key(labels))
        old = self.series.get(key)
        if since is None or old is None:
            self.series[key] = value
        else:
            self.series[key] = lambda at: old(at) if at < since else value(at)

    def _healthy_rank(self, rank: int) -> None:
        own, gpu = self.of_rank(rank), self.of_gpu(rank)
        for signal, value in {
            "step_time_s": self.step_s,
            "step_time_s_p50": self.step_s,
            "mfu": 41.0,
            "data_wait_s": 0.05,
        }.items():
            self.put(signal, own, value)
        self.put("comm_wait_s", own, self.step_s / 8)
        for name, part in {"fwd_bwd": 0.83, "optim": 0.033, "fetching_batch": 0.004}.items():
            self.phase(name, rank, part * self.step_s)
        self._put("last_step_completed_timestamp_seconds", own, lambda at: time.time() + at - (at % self.step_s), None)
        self._put("step", own, lambda at: 50_000 + math.floor(at / self.step_s), None)
        self.put("mem_inactive_split", own, 2.0e9)
        for signal in ("num_alloc_retries", "ckpt_failed_total", "restart_total"):
            self.put_exact(signal, own, 0)
        for signal in ("num_device_alloc", "num_device_free"):
            self.put_exact(signal, own, 300)
        self.put_exact("loss_is_finite", own, 1)
        self.grow("log_bytes_total", own, 40.0)
        self.put("ckpt_duration_s", own, 30.0)
        self.put("sm_clock", gpu, 1980.0)
        for signal, value in {"gpu_temp": 61.0, "memory_temp": 70.0, "power": 650.0}.items():
            self.put(signal, gpu, value)
        for signal in ("xid", "clocks_event_reasons", "ecc_dbe", "ecc_sbe"):
            self.put_exact(signal, gpu, 0)
        for signal in ("nvlink_crc_flit", "nvlink_crc_data", "nvlink_replay", "nvlink_recovery", "pcie_replay"):
            self.put_exact(signal, gpu, 0)

    def _healthy_host(self, host: str) -> None:
        port = {**of_host(host), "device": "mlx5_0", "port": "1"}
        for signal in ("ib_link_downed", "ib_link_recovery", "ib_receive_errors", "ib_transmit_discards"):
            self.put_exact(signal, port, 0)
        self.put_exact("ib_state", port, 4)
        self.put_exact("ib_rate", port, 5.0e10)
        self.put("host_memory_available", of_host(host), 1.5e12)
        self.put_exact("host_memory_total", of_host(host), 2.0e12)


def _key(labels: Labels) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


def host_of(rank: int, per_host: int = PER_HOST) -> str:
    return f"node{rank // per_host + 1:03}"


def of_rank(rank: int, per_host: int = PER_HOST) -> Labels:
    """Labels as of `oncall exporter` on the rank's node."""
    return {"run": RUN, "rank": str(rank), "job": "train", "instance": f"{host_of(rank, per_host)}:9400"}


def of_gpu(rank: int, per_host: int = PER_HOST) -> Labels:
    """Labels as of dcgm-exporter, one of 2026 on every second node."""
    host = host_of(rank, per_host)
    name, gpu = "hostname" if int(host[-3:]) % 2 == 0 else "Hostname", str(rank % per_host)
    return {name: host, "gpu": gpu, "UUID": f"GPU-{rank:08}-4b5a-6978", "job": "dcgm", "instance": "10.0.0.9:9400"}


def of_host(host: str) -> Labels:
    """Labels as of node_exporter, which names its host by `instance` alone."""
    return {"job": "node", "instance": f"{host}.cluster.example.com:9100"}


@contextmanager
def serve(history: History, folder: Path, *, config: dict[str, object] | None = None) -> Iterator[str]:
    """A real Prometheus with this past; yields its address. `config` is more of its configuration."""
    program, tool = shutil.which("prometheus"), shutil.which("promtool")
    if program is None or tool is None:
        pytest.skip("Prometheus and promtool are not installed")
    folder.mkdir(parents=True, exist_ok=True)
    text, blocks = folder / "history.om", folder / "tsdb"
    history.write(text)
    argv = [tool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)]
    subprocess.run(argv, check=True, capture_output=True)
    text.unlink()
    settings = folder / "prometheus.yml"
    settings.write_text(json.dumps({"global": {"scrape_interval": "1s"}, **(config or {})}))
    options = [f"--config.file={settings}", f"--storage.tsdb.path={blocks}", "--web.listen-address=127.0.0.1:0"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([program, *options, "--storage.tsdb.retention.time=10y"], stdout=log, stderr=log)
    try:
        url = f"http://{address_told(folder / 'prometheus.log', process)}"
        _wait_ready(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_ready(url: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{url}/-/ready", timeout=2).close()
        except (OSError, urllib.error.HTTPError):
            assert process.poll() is None, "Prometheus ended"
            assert time.monotonic() < until, "Prometheus did not get ready"
            time.sleep(0.05)
        else:
            return


def rank_map(world: int = 8, per_host: int = PER_HOST) -> str:
    """The rank map of such a run, as JSON."""
    rows = [
        {"rank": rank, "host": host_of(rank, per_host), "local_rank": rank % per_host, "gpu_index": rank % per_host}
        for rank in range(world)
    ]
    return json.dumps({"world_size": world, "ranks": rows})
