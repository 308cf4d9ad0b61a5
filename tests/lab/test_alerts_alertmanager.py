"""A real Alertmanager with the shipped configuration: one incident is one message, what is explained is held back."""

import json
import queue
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from oncall.signals import vocabulary

from .ports import address_told

SHIPPED = Path(vocabulary.__file__).with_name("alertmanager.yml")
PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
DEADLINE_S = 120.0


@dataclass(frozen=True)
class Notification:
    """One message that a receiver got."""

    receiver: str
    group: dict[str, str]
    alerts: list[dict[str, str]]


class Receiver:
    """A webhook that keeps what it is sent."""

    def __init__(self) -> None:
        self.got: queue.Queue[Notification] = queue.Queue()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                labels = [alert["labels"] for alert in body["alerts"]]
                receiver.got.put(Notification(body["receiver"], body["groupLabels"], labels))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Keep the test's output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Alertmanager:
    """A running Alertmanager."""

    def __init__(self, address: str) -> None:
        self.url = f"http://{address}"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def post(self, alerts: list[dict[str, str]]) -> None:
        body = json.dumps([{"labels": labels} for labels in alerts]).encode()
        request = urllib.request.Request(
            self.url + "/api/v2/alerts", data=body, headers={"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request, timeout=DEADLINE_S).close()

    def wait_ready(self, process: "subprocess.Popen[bytes]") -> None:
        until = time.monotonic() + DEADLINE_S
        while True:
            try:
                with urllib.request.urlopen(self.url + "/-/ready", timeout=1):
                    return
            except OSError:
                assert process.poll() is None, "Alertmanager ended"
                assert time.monotonic() < until, "Alertmanager did not become ready"
                time.sleep(0.05)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def alertmanager(tmp_path: Path, receiver: Receiver) -> Iterator[Alertmanager]:
    """The shipped configuration with the test's receiver, and 1 s instead of 30 s before a group's first message."""
    if PROGRAM is None:
        pytest.skip("Alertmanager is not installed")
    text = SHIPPED.read_text()
    assert "group_wait: 30s" in text
    assert "http://127.0.0.1:9095/" in text
    config = tmp_path / "alertmanager.yml"
    address = f"http://127.0.0.1:{receiver.server.server_port}/"
    config.write_text(text.replace("group_wait: 30s", "group_wait: 1s").replace("http://127.0.0.1:9095/", address))
    command = [
        PROGRAM,
        f"--config.file={config}",
        f"--storage.path={tmp_path / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        "--cluster.listen-address=",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        running = Alertmanager(address_told(tmp_path / "log", process))
        running.wait_ready(process)
        yield running
    finally:
        process.terminate()
        process.wait(timeout=DEADLINE_S)


def alert(name: str, severity: str, **labels: str) -> dict[str, str]:
    return {"alertname": name, "severity": severity, "run": "run42", **labels}


def xid(host: str, gpu: int) -> dict[str, str]:
    return alert("GpuXidError", "page", Hostname=host, gpu=str(gpu))


def clock(host: str, gpu: int) -> dict[str, str]:
    return alert("GpuClockLow", "record", Hostname=host, gpu=str(gpu))


def names(notification: Notification) -> list[tuple[str, str]]:
    return sorted((each["alertname"], each.get("Hostname", "")) for each in notification.alerts)


def two(receiver: Receiver) -> dict[str, Notification]:
    """The next two messages, by receiver."""
    both = [receiver.got.get(timeout=DEADLINE_S) for _ in range(2)]
    return {each.receiver: each for each in both}


def test_a_burst_of_a_thousand_is_one_message(alertmanager: Alertmanager, receiver: Receiver) -> None:
    """A switch fails: 960 GPUs tell Xids, ranks slow down, the launcher starts the job again."""
    failed = [xid(f"node{node:03}", gpu) for node in range(1, 121) for gpu in range(8)]
    held_back = [clock("node037", gpu) for gpu in range(8)] + [alert("TrainingStepStalled", "page")]
    others = [clock("node128", gpu) for gpu in range(8)] + [alert("TrainingRestarting", "record")]
    others += [alert("RankStepTimeOutlier", "record", rank=str(rank)) for rank in range(22)]
    burst = failed + held_back + others
    assert len(burst) == 1000
    alertmanager.post(burst)
    got = two(receiver)
    assert names(got["page"]) == sorted(("GpuXidError", each["Hostname"]) for each in failed)
    assert names(got["record"]) == sorted((each["alertname"], each.get("Hostname", "")) for each in others)
    assert {each.group["run"] for each in got.values()} == {"run42"}
    states = alertmanager.get("/api/v2/alerts")
    inhibited = [each["labels"] for each in states if each["status"]["inhibitedBy"]]
    assert sorted(map(str, inhibited)) == sorted(map(str, (dict(sorted(each.items())) for each in held_back)))
    assert receiver.got.empty()


def test_loop_silences_what_it_consists_of(alertmanager: Alertmanager, receiver: Receiver) -> None:
    alertmanager.post(
        [
            alert("TrainingRestartLoop", "page"),
            alert("TrainingStepStalled", "page"),
            alert("TrainingRestarting", "record"),
            alert("GradNormSpike", "record"),
        ]
    )
    got = two(receiver)
    assert [each["alertname"] for each in got["page"].alerts] == ["TrainingRestartLoop"]
    assert [each["alertname"] for each in got["record"].alerts] == ["GradNormSpike"]


def test_restart_of_one_run_silences_no_other(alertmanager: Alertmanager, receiver: Receiver) -> None:
    alertmanager.post([alert("TrainingRestarting", "record"), {**alert("TrainingStepStalled", "page"), "run": "run43"}])
    got = two(receiver)
    assert [each["run"] for each in got["page"].alerts] == ["run43"]


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_xid_silences_the_clock_of_its_own_host_only(
    alertmanager: Alertmanager, receiver: Receiver, label: str
) -> None:
    """Whatever the label's name; and never through the absence of the other name."""
    alertmanager.post(
        [
            {**alert("GpuXidError", "page"), label: "node037"},
            {**alert("GpuClockLow", "record"), label: "node037"},
            {**alert("GpuClockLow", "record"), label: "node038"},
            alert("GpuClockLow", "record", gpu="9"),
        ]
    )
    got = two(receiver)
    assert len(got["page"].alerts) == 1
    assert sorted(each.get(label, "") for each in got["record"].alerts) == ["", "node038"]
