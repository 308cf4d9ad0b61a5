"""`oncall signals run42` on a real Prometheus: what has data, for how many of those expected, how old, and why not."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from oncall.signals.vocabulary import SIGNALS

from .driving import ONCALL
from .history import History, of_rank, serve
from .test_slowdown import prepare

pytestmark = pytest.mark.lab


def signals(folder: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and signal → row."""
    argv = [ONCALL, "signals", "run42", "--json"]
    ended = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    told = json.loads(ended.stdout)
    assert told["schema"] == "oncall.signals/1"
    return ended.returncode, {row["signal"]: row for row in told["signals"]}


def test_each_signal_tells_what_it_has(tmp_path: Path) -> None:
    history = History()
    history.drop("memory_temp")
    history.end("mfu", of_rank(7), -200.0)
    own = "[signals]\npower = 'DCGM_FI_DEV_POWER_USAGE{$dcgm} / 1000'\ngpu_temp = 'sum('\n"
    with serve(history, tmp_path / "prometheus") as url:
        code, rows = signals(prepare(tmp_path, url, more=own))
        text = subprocess.run([ONCALL, "signals", "run42"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert code == 0
    assert list(rows) == list(SIGNALS)
    clock = rows["sm_clock"]
    assert (clock["of"], clock["covered"], clock["expected"], clock["stale"]) == ("ranks", 8, 8, 0)
    assert 0 <= clock["newest_age_s"] < 60
    assert (rows["ib_rate"]["of"], rows["ib_rate"]["covered"], rows["ib_rate"]["expected"]) == ("hosts", 2, 2)
    assert (rows["memory_temp"]["covered"], rows["memory_temp"]["problem"]) == (0, "no series")
    assert (rows["mfu"]["covered"], rows["mfu"]["stale"]) == (7, 1)
    assert rows["power"]["own_query"]
    assert rows["power"]["query"] == "DCGM_FI_DEV_POWER_USAGE{} / 1000"
    assert rows["power"]["covered"] == 8
    assert rows["gpu_temp"]["problem"].startswith("HTTP 400 Bad Request: ")
    assert "sm_clock                               8 of 8 ranks, newest sample" in text.stdout


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", ""], ids=["down", "none"])
def test_without_a_prometheus_it_says_so(url: str, tmp_path: Path) -> None:
    folder = prepare(tmp_path, url)
    if url:
        code, rows = signals(folder)
        assert code == 12
        assert {row["problem"] for row in rows.values()} == {"connection refused: nothing listens there"}
        ended = subprocess.run([ONCALL, "signals", "run42"], cwd=folder, capture_output=True, text=True, check=False)
        assert ended.stdout.startswith(f"no signal is known: {url} answered none of ")
        assert ended.stdout.count("\n") == 1
        return
    run_file = folder / "run42.toml"
    run_file.write_text(run_file.read_text().replace('[prometheus]\nurl = ""\n', ""))
    ended = subprocess.run([ONCALL, "signals", "run42"], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "names no Prometheus" in ended.stderr
