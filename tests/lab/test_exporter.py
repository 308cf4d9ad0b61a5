"""The exporter as a process: against a writer at its worst, a real torchrun, and a real Prometheus."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from oncall.signals import vocabulary

from .ports import address_told

WRITER = Path(__file__).parents[1] / "bench" / "exporter_writer.py"
RULES = Path(vocabulary.__file__).with_name("alerts.yml")
DEADLINE_S = 120.0
SAMPLE = re.compile(r"^(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)


class Running:
    """An exporter that answers on `url`."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url

    @property
    def port(self) -> int:
        return urllib.parse.urlsplit(self.url).port or 0

    def samples(self) -> dict[tuple[str, str], float]:
        """(metric, labels as exposed) → value."""
        with urllib.request.urlopen(self.url, timeout=DEADLINE_S) as answer:
            text = answer.read().decode()
        return {(name, labels): float(value) for name, labels, value in SAMPLE.findall(text)}

    def wait_for(self, metric: str, labels: str, value: float) -> None:
        until = time.monotonic() + DEADLINE_S
        while self.samples().get((metric, labels)) != value:
            assert time.monotonic() < until, f"{metric}{{{labels}}} did not become {value}: {self.samples()}"
            time.sleep(0.05)


@contextmanager
def exporter(*arguments: str) -> Iterator[Running]:
    """`oncall exporter` on a free port, looking often; stopped at the end, which must be clean."""
    command = [sys.executable, "-c", "import sys; from oncall.cli import main; sys.exit(main())", "exporter"]
    options = ["--run", "run42", "--port", "0", "--address", "127.0.0.1", "--interval", "0.1"]
    with subprocess.Popen([*command, *options, *arguments], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = re.search(r"http://\S+", process.stderr.readline())
            assert found is not None
            yield Running(process, found[0])
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
    assert process.returncode == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_random_writer_is_counted_exactly(tmp_path: Path, seed: int) -> None:
    with exporter(str(tmp_path)) as running:
        command = [sys.executable, str(WRITER), str(tmp_path), running.url, str(seed), "3"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        expected = json.loads(done.stdout)
        samples = running.samples()
    assert samples["oncall_exporter_lines_total", 'run="run42"'] == expected["lines"]
    assert samples["oncall_exporter_bad_lines_total", 'run="run42"'] == expected["bad"]
    for rank, step in expected["steps"].items():
        assert samples["train_step", f'rank="{rank}",run="run42"'] == step


def test_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-c", "import sys; from oncall.cli import main; sys.exit(main())", "exporter"]
        options = ["--run", "run42", "--port", port, "--address", "127.0.0.1", str(tmp_path)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"oncall: cannot listen on 127.0.0.1:{port}: Address already in use\n  choose another with --port\n"
    )


FAILS_ONCE = """
import os, sys, time
print("hello from", os.environ["RANK"], flush=True)
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(3)
open(sys.argv[1] + "/up" + os.environ["RANK"], "w").close()
while not os.path.exists(sys.argv[1] + "/stop"):
    time.sleep(0.05)
"""


def test_real_torchrun_that_restarts_once(tmp_path: Path) -> None:
    """Both ranks fail in the first attempt and write 13 bytes in each; the second attempt goes on."""
    pytest.importorskip("torch")
    script, logs = tmp_path / "train.py", tmp_path / "logs"
    script.write_text(FAILS_ONCE)
    logs.mkdir()
    with exporter(str(logs), "--first-rank", "0") as running:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=2"]
        options = ["--master-port=0", "--monitor-interval=0.1", f"--log-dir={logs}", "--redirects=3"]
        with subprocess.Popen([*command, *options, str(script), str(tmp_path)], stderr=subprocess.DEVNULL) as launcher:
            try:
                running.wait_for("train_restart_total", 'rank="",run="run42"', 1)
                for rank in (0, 1):
                    labels = f'local_rank="{rank}",rank="{rank}",run="run42"'
                    running.wait_for("train_log_bytes_total", labels, 2 * len("hello from 0\n"))
                samples = running.samples()
                assert abs(samples["train_attempt_start_timestamp_seconds", 'run="run42"'] - time.time()) < DEADLINE_S
            finally:
                (tmp_path / "stop").touch()
                launcher.wait(timeout=DEADLINE_S)


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[str]:
    """A real Prometheus that scrapes one exporter every second under the shipped rules; yields its address."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed")
    config = folder / "prometheus.yml"
    scrape = {"job_name": "train", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config.write_text(json.dumps({"global": every, "rule_files": [str(RULES)], "scrape_configs": [scrape]}))
    command = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        "--web.listen-address=127.0.0.1:0",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://{address_told(folder / 'prometheus.log', process)}"
    finally:
        process.terminate()
        process.wait(timeout=DEADLINE_S)


def query(address: str, expression: str) -> list[dict[str, Any]]:
    url = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found
    except OSError:
        return []


def wait_for_answer(address: str, expression: str) -> list[dict[str, Any]]:
    until = time.monotonic() + DEADLINE_S
    while not (found := query(address, expression)):
        assert time.monotonic() < until, f"no answer to {expression}"
        time.sleep(0.1)
    return found


def test_real_prometheus_keeps_the_labels_and_fires_the_rules(tmp_path: Path) -> None:
    """A run whose last step is 10 minutes old, with a NaN loss on rank 1 and a field of every odd name."""
    signals = tmp_path / "signals"
    signals.mkdir()
    now = time.time()
    for rank in (0, 1):
        steps = [
            {"t": now - 600 - 12 * (20 - step), "step": 51280 + step, "rank": rank, "step_time_s": 12.0, "loss": 2.0}
            for step in range(21)
        ]
        odd = {"x_total": 1, "y_bucket": 2, "z_created": 3, "w_info": 4, "restart_total": 0, "restart": 5}
        steps[-1] |= {"loss": float("nan") if rank else 2.0} | odd
        (signals / f"rank_{rank}.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    with exporter(str(signals)) as running, prometheus(tmp_path, running.port) as address:
        (loss,) = wait_for_answer(address, 'train_loss{rank="0"}')
        assert loss["metric"] == {
            "__name__": "train_loss",
            "run": "run42",
            "rank": "0",
            "job": "train",
            "instance": f"127.0.0.1:{running.port}",
        }
        firing = 'ALERTS{alertstate="firing",alertname="%s"}'
        (stalled,) = wait_for_answer(address, firing % "TrainingStepStalled")
        assert {name: stalled["metric"][name] for name in ("run", "severity")} == {"run": "run42", "severity": "page"}
        assert len(wait_for_answer(address, firing % "TrainingLossNotFinite")) == 1
        names = {each["metric"]["__name__"] for each in query(address, '{__name__=~"train_[wxyz]_.*|train_restart.*"}')}
        assert names == {
            "train_x_total",
            "train_y_bucket",
            "train_z_created",
            "train_w_info",
            "train_restart_total",
            "train_restart",
        }
        with urllib.request.urlopen(f"{address}/api/v1/alerts", timeout=DEADLINE_S) as answer:
            alerts = json.load(answer)["data"]["alerts"]
        summary = next(a["annotations"]["summary"] for a in alerts if a["labels"]["alertname"] == "TrainingStepStalled")
        assert re.fullmatch(r"run42: no step completed for 10m \d+s, last step 51300", summary)
