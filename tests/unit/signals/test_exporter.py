"""What a scrape of the exporter shows, read with prometheus_client's own parser."""

import json
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from oncall.cli import main
from oncall.signals import exposition
from oncall.signals.exporter import Exporter
from oncall.signals.vocabulary import SIGNALS


def write(path: Path, *records: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def scrape(exporter: Exporter) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, sorted labels) → value; fails when a sample stands there twice, which Prometheus refuses."""
    registry = CollectorRegistry()
    registry.register(exporter)
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in parse_text(generate_latest(registry).decode()):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    list(parse_openmetrics(generate_openmetrics(registry).decode()))
    return found


def of_rank(name: str, rank: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, (("rank", str(rank)), ("run", "run42"))


OF_RUN = (("run", "run42"),)


def test_one_record_of_every_field(tmp_path: Path) -> None:
    now = time.time()
    fields = {name: 1.5 for name, signal in SIGNALS.items() if signal.source.value == "oncall exporter"}
    write(tmp_path / "r.jsonl", {**fields, "t": now, "rank": 3, "step": 7, "loss": 2.5})
    exporter = Exporter("run42", [str(tmp_path)])
    exporter.look()
    found = scrape(exporter)
    assert found[of_rank("train_step", 3)] == 7
    assert found[of_rank("train_loss", 3)] == 2.5
    assert found[of_rank("train_loss_is_finite", 3)] == 1
    assert found[of_rank("train_last_step_completed_timestamp_seconds", 3)] == pytest.approx(now)
    assert found[of_rank("train_step_time_s_p50", 3)] == 1.5
    assert found[of_rank("train_ckpt_failed_total", 3)] == 1.5
    assert ("oncall_exporter_lines_total", OF_RUN) in found


def test_no_sample_for_what_is_not_known(tmp_path: Path) -> None:
    exporter = Exporter("run42", [str(tmp_path)])
    exporter.look()
    assert not [name for name, _ in scrape(exporter) if name.startswith("train_")]


def test_nothing_is_known_before_the_first_look(tmp_path: Path) -> None:
    assert ("oncall_exporter_last_look_timestamp_seconds", OF_RUN) not in scrape(Exporter("run42", [str(tmp_path)]))


def test_failed_checkpoint_spans_are_failed_checkpoints(tmp_path: Path) -> None:
    exporter = Exporter("run42", [str(tmp_path)])
    span = {"log_type": "event", "rank": 3, "step": 1, "time_us": round(time.time() * 1e6)}
    path = tmp_path / "training.global_rank_3.jsonl"
    counted = []
    for ends in (["start"], ["error", "end"], ["start", "end"]):
        write(path, *(span | {"log_type_name": f"checkpoint_save_{end}"} for end in ends))
        exporter.look()
        counted.append(scrape(exporter)[of_rank("train_ckpt_failed_total", 3)])
    assert counted == [0, 1, 1]


def test_labels_cannot_break_the_exposition(tmp_path: Path) -> None:
    exporter = Exporter('run"42\n} 1', [str(tmp_path)])
    write(tmp_path / "r.jsonl", {"rank": 0, "step": 1})
    exporter.look()
    labels = {dict(key)["run"] for name, key in scrape(exporter) if name == "train_step"}
    assert labels == {'run"42\n} 1'}


def test_fields_outside_the_vocabulary_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "MAX_UNLISTED", 5)
    write(tmp_path / "r.jsonl", {"rank": 0, "step": 1} | {f"own_{n}": n for n in range(20)})
    exporter = Exporter("run42", [str(tmp_path)])
    exporter.look()
    assert sorted(name for name, _ in scrape(exporter) if "own" in name) == [f"train_own_{n}" for n in range(5)]


def test_unreadable_folder_is_counted_and_named(tmp_path: Path) -> None:
    exporter = Exporter("run42", [str(tmp_path / "nowhere")])
    exporter.look()
    assert scrape(exporter)["oncall_exporter_unreadable", OF_RUN] == 1
    assert exporter.unreadable == {str(tmp_path / "nowhere"): "No such file or directory"}


@pytest.mark.parametrize(
    "options", [["--interval", "0"], ["--interval", "nan"], ["--port", "70000"], ["--first-rank", "-1"]]
)
def test_options_that_cannot_be(tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exporter", str(tmp_path), "--run", "run42", "--address", "127.0.0.1", *options]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("oncall: ")
