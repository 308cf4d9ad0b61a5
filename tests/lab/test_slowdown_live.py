"""A slowed run as the real exporter shows it to a real Prometheus: its tree, its leaf, and what is left without it."""

import json
import re
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncall.bundle.store import Bundle

from .driving import replay_offline, triage, without_times
from .history import History, host_of, serve
from .slowdowns import CULPRIT, throttle
from .test_exporter import Running, exporter
from .test_slowdown import prepare

pytestmark = pytest.mark.lab

DEADLINE_S = 60.0


def write_steps(folder: Path, ranks: range, *, step_time_s: float = 40.0) -> None:
    """What a trainer's ranks have written: the last of some slow steps ended just now."""
    folder.mkdir()
    for rank in ranks:
        fields = {
            "rank": rank,
            "loss": 2.1,
            "mfu": 12.3,
            "step_time_s": step_time_s,
            "comm_wait_s": 0.4 if rank == CULPRIT else 29.5,
            "data_wait_s": 0.05,
        }
        now = time.time()
        steps = [{"t": now - 40 * (51300 - step), "step": step, **fields} for step in range(51295, 51301)]
        (folder / f"rank_{rank}.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))


@contextmanager
def scraped(folder: Path) -> Iterator[tuple[str, list[Running]]]:
    """Two real exporters, one a node, scraped by a real Prometheus with a past; yields its address and them."""
    history = History(until_s=-1.0, trainer_until_s=-150.0)
    throttle(history)
    with ExitStack() as stack:
        exporters = []
        for node in (0, 1):
            write_steps(folder / f"signals{node}", range(4 * node, 4 * node + 4))
            exporters.append(stack.enter_context(exporter(str(folder / f"signals{node}"))))
        targets = [
            {"targets": [f"127.0.0.1:{each.port}"], "labels": {"instance": f"{host_of(4 * node)}:9400"}}
            for node, each in enumerate(exporters)
        ]
        config: dict[str, object] = {"scrape_configs": [{"job_name": "train", "static_configs": targets}]}
        url = stack.enter_context(serve(history, folder / "prometheus", config=config))
        wait_until(url, "count(train_step == 51300)", 8)
        yield url, exporters


def wait_until(url: str, query: str, value: float) -> None:
    until = time.monotonic() + DEADLINE_S
    while True:
        with urllib.request.urlopen(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}") as answer:
            result = json.load(answer)["data"]["result"]
        if result and float(result[0]["value"][1]) == value:
            return
        assert time.monotonic() < until, f"{query} is {result}, not {value}"
        time.sleep(0.1)


def test_the_exporters_series_lead_to_the_throttled_gpu(tmp_path: Path) -> None:
    """Nobody names a tree: the metrics call for it. Without its exporter a node is stale, and nobody is accused."""
    with scraped(tmp_path) as (url, exporters):
        code, answer = triage(prepare(tmp_path, url))
        exporters[1].process.terminate()
        wait_until(url, 'min(up{instance="node002:9400"})', 0)
        _, later = triage(prepare(tmp_path / "later", url), "--playbook", "slowdown")
    verdict = answer["verdict"]
    assert (code, verdict["conclusion"]) == (10, "throttled-straggler"), answer["headline"]
    assert (verdict["ranks"], verdict["hosts"]) == ([CULPRIT], ["node002"])
    assert (answer["symptom"]["playbook"], answer["symptom"]["source"]) == ("slowdown", "metrics")
    assert answer["playbook"] == "slowdown"
    assert re.match(r"run42 runs at step 51,300; a step takes (39\.\d|40) s, it took 12 s", answer["job"]["message"])
    assert [panel["verdict"] for panel in answer["panels"] if panel["question"] == "Throttled?"] == ["suspect"]
    assert Bundle.open(tmp_path / "bundle").manifest.playbook == "slowdown"
    _, again = replay_offline(tmp_path / "bundle")
    assert without_times(again) == without_times(answer)
    reasons = " ".join(step["reason"] for step in later["steps"] if step["verdict"] == "unknown")
    assert "stale for ranks 4-7" in reasons
    assert later["verdict"]["conclusion"] in {"throttled-straggler", "not-enough"}


@contextmanager
def alertmanager(listed: list[dict[str, Any]]) -> Iterator[str]:
    """What answers as Alertmanager's list of alerts does, for there is none on every machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert urllib.parse.urlsplit(self.path).path == "/api/v2/alerts"
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(msgspec.json.encode(listed))

        def log_message(self, *args: object) -> None:
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_an_alert_decides_though_prometheus_is_down(tmp_path: Path) -> None:
    """And every question of the tree says why it has no answer; nothing is cleared."""
    alert = {
        "annotations": {"summary": "run42: MFU 12.3 % is over 15 % below its baseline for 30 minutes"},
        "endsAt": "2026-03-03T03:04:00.000Z",
        "fingerprint": "1a2b3c4d5e6f7081",
        "receivers": [{"name": "pager"}],
        "startsAt": "2026-03-03T02:41:00.000Z",
        "status": {"inhibitedBy": [], "silencedBy": [], "state": "active"},
        "updatedAt": "2026-03-03T03:00:00.000Z",
        "labels": {"alertname": "TrainingMfuDegraded", "severity": "page", "run": "run42"},
    }
    with alertmanager([alert]) as url:
        folder = prepare(tmp_path, "http://127.0.0.1:9", more=f'[alertmanager]\nurl = "{url}"\n')
        code, answer = triage(folder)
    assert (answer["playbook"], answer["symptom"]["source"]) == ("slowdown", "alerts")
    assert [row["name"] for row in answer["alerts"]] == ["TrainingMfuDegraded"]
    assert (code, answer["verdict"]["conclusion"]) == (12, "not-enough")
    judged = {step["step"]: (step["verdict"], step["reason"]) for step in answer["steps"]}
    for step in ("slower", "few-or-all", "throttled", "links", "data", "fragmentation", "logs", "memory"):
        verdict, reason = judged[step]
        assert verdict == "unknown", step
        assert "connection refused: nothing listens there" in reason, step
    assert {panel["verdict"] for panel in answer["panels"]} == {"unknown"}


@pytest.mark.parametrize("more", ["", "[signals]\nsm_clock = 'my_clock{$gpu}'\n"], ids=["no-prometheus", "bad-signal"])
def test_a_run_file_without_metrics_or_with_a_wrong_one(more: str, tmp_path: Path) -> None:
    folder = prepare(tmp_path, "http://127.0.0.1:9")
    text = (folder / "run42.toml").read_text().replace('[prometheus]\nurl = "http://127.0.0.1:9"\n', "")
    (folder / "run42.toml").write_text(text + more)
    if more:
        with pytest.raises(AssertionError, match=r"run42\.toml: signals\.sm_clock: \$gpu is no open place"):
            triage(folder)
        return
    code, answer = triage(folder, "--playbook", "slowdown")
    assert code == 12
    assert answer["steps"][0]["reason"] == "step_time_s: the run file names no `prometheus.url`"
    assert answer["panels"] == []
