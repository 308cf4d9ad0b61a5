"""Metrics as files: the exposition format's own rules, Prometheus' and Alertmanager's answers, and broken ones."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from oncall.formats.event import Event
from oncall.formats.kernel_kinds import KERNEL_KINDS
from oncall.formats.metrics import flapping_ports, read_metrics, summarise_scrapes

VOCABULARY = {name: set(said.split()) for name, family, _, said in KERNEL_KINDS if family == "metrics"}


def events(text: str) -> tuple[Event, ...]:
    parsed = read_metrics(text.encode(), "m")
    assert parsed.unrecognised == ()
    return parsed.events


def answer(**data: Any) -> str:
    return json.dumps({"status": "success", "data": data})


def series(*values: tuple[float, str], **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": "DCGM_FI_DEV_XID_ERRORS", **labels}, "values": list(values)}


@pytest.mark.parametrize(
    ("line", "value", "at"),
    [
        ("a 1", 1, None),
        ("a 0.412233", 0.412233, None),
        ("a 1e+09", 1_000_000_000, None),
        ("a NaN", "nan", None),
        ("a +Inf", "inf", None),
        ("a -Inf", "-inf", None),
        ("a 1 1767225600000", 1, 1_767_225_600),
        ("a 1 1767225600.5", 1, 1_767_225_600.5),
        ('a_total 1 1767225600.5 # {trace_id="x"} 0.5', 1, 1_767_225_600.5),
        ("a{} 2", 2, None),
    ],
)
def test_sample_lines(line: str, value: Any, at: Any) -> None:
    (sample,) = events(line)

    assert (sample.fields["value"], sample.fields["at"]) == (value, at)
    assert set(sample.fields) <= VOCABULARY["sample"]


@settings(deadline=None, max_examples=150)
@given(
    st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True), st.text(max_size=12), max_size=4),
    st.floats(),
)
def test_reads_what_prometheus_client_writes(labels: dict[str, str], value: float) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("m", "help", list(labels), registry=registry)
    (gauge.labels(**labels) if labels else gauge).set(value)
    text = generate_latest(registry).decode()
    peer = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    (sample,) = read_metrics(text.encode(), "m").events

    assert sample.fields["labels"] == peer[0].labels
    read = float(str(sample.fields["value"]))
    assert read == peer[0].value or (math.isnan(read) and math.isnan(peer[0].value))


def test_every_line_of_histograms_and_openmetrics_counts() -> None:
    registry = CollectorRegistry()
    Histogram("h", "help", registry=registry).observe(0.2)
    Counter("c", "help", registry=registry).inc(exemplar={"trace_id": "x"})
    text = generate_openmetrics(registry).decode()

    assert len(events(text)) == sum(1 for line in text.splitlines() if not line.startswith("#"))


def test_lines_that_are_no_sample_are_named_and_the_rest_is_read() -> None:
    parsed = read_metrics(b'a 1\n<html>\nb{x="1} 2\nc one\nd 2\n', "m")

    assert parsed.unrecognised == (2, 3, 4)
    assert [event.first_line for event in parsed.events] == [1, 5]


def test_labels_may_hold_braces_quotes_and_line_ends() -> None:
    (sample,) = events(r'a{x="}",y="\"q\"",z="a\nb\\"} 1')

    assert sample.fields["labels"] == {"x": "}", "y": '"q"', "z": "a\nb\\"}


def test_ports_that_are_down_or_flap() -> None:
    before = read_metrics(
        b'node_infiniband_link_downed_total{device="mlx5_0",port="1"} 2\n'
        b'node_infiniband_link_downed_total{device="mlx5_1",port="1"} 7\n'
        b'node_infiniband_link_downed_total{device="mlx5_2",port="1"} 7\n',
        "1",
    )
    after = read_metrics(
        b'node_infiniband_link_downed_total{device="mlx5_0",port="1"} 2\n'
        b'node_infiniband_link_downed_total{device="mlx5_1",port="1"} 9\n'
        b'node_infiniband_link_downed_total{device="mlx5_2",port="1"} 1\n'
        b'node_infiniband_link_downed_total{device="mlx5_3",port="1"} 5\n'
        b'node_infiniband_state_id{device="mlx5_4",port="1"} 2\n'
        b'node_infiniband_state_id{device="mlx5_0",port="1"} 4\n',
        "2",
    )

    assert {port["device"]: port["link_downed_delta"] for port in flapping_ports(before, after)} == {
        "mlx5_1": 2,
        "mlx5_2": 1,
    }
    assert summarise_scrapes([after])["down"] == [{"device": "mlx5_4", "port": "1"}]


def test_a_code_that_was_there_from_the_start_has_no_beginning() -> None:
    (change,) = events(answer(resultType="matrix", result=[series((60, "79"), (120, "79"), gpu="1", hostname="n")]))

    assert change.kind == "xid_metric_change"
    assert {name: change.fields[name] for name in ("host", "old", "new", "at", "since")} == {
        "host": "n",
        "old": None,
        "new": 79,
        "at": 60,
        "since": None,
    }


def test_a_change_lies_between_two_points() -> None:
    change, reset = events(
        answer(resultType="matrix", result=[series((60, "0"), (120, "31"), (600, "0"), (660, "0"), gpu="1")])
    )

    assert (change.fields["since"], change.fields["at"]) == (60, 120)
    assert (reset.kind, reset.fields["old"], reset.fields["since"]) == ("xid_metric_reset", 31, 120)
    assert set(change.fields) <= VOCABULARY["xid_metric_change"]


def test_vector_scalar_and_other_series_are_samples() -> None:
    vector = answer(resultType="vector", result=[{"metric": {"__name__": "up", "host": "n"}, "value": [1.5, "1"]}])
    matrix = answer(resultType="matrix", result=[{"metric": {"__name__": "up"}, "values": [[1, "0"], [2, "NaN"]]}])
    scalar = answer(resultType="scalar", result=[7, "3"])

    read = [events(text)[0].fields for text in (vector, matrix, scalar)]

    assert [(fields["metric"], fields["value"], fields["at"]) for fields in read] == [
        ("up", 1, 1.5),
        ("up", "nan", 2),
        ("", 3, 7),
    ]


def test_a_query_that_failed_is_said_not_silent() -> None:
    (error,) = events('{"status":"error","errorType":"timeout","error":"query timed out"}')

    assert (error.kind, error.fields) == ("query_error", {"error_type": "timeout", "error": "query timed out"})


def test_warnings_of_a_partial_answer_are_kept() -> None:
    text = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}, "warnings": ["store down"]})

    assert read_metrics(text.encode(), "m").summary == {"warnings": ["store down"]}


def test_times_of_alerts_are_utc() -> None:
    alert = {
        "labels": {"alertname": "GpuXid"},
        "status": {"state": "active", "silencedBy": [], "inhibitedBy": []},
        "startsAt": "2026-01-01T01:05:00.250+01:00",
        "fingerprint": "8b1f",
    }
    (read,) = events(json.dumps([alert]))

    assert read.fields["starts_at"] == "2026-01-01T00:05:00.25Z"
    assert read.fields["ends_at"] is None
    assert set(read.fields) == VOCABULARY["alert"]


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"[",
        b"[1]",
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"x"]]}]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}',
        b"[" * 100_000,
        b'{"status":' * 100_000,
        b'[{"labels":{},"status":{"state":"active"},"startsAt":"yesterday","fingerprint":"x"}]',
        b'{"status":"success","data":"\xff"}',
    ],
)
def test_broken_answers_are_named_not_raised(data: bytes) -> None:
    parsed = read_metrics(data, "m")

    assert parsed.events == ()
    assert parsed.unrecognised == (1,)


def test_nothing_is_nothing() -> None:
    assert read_metrics(b"", "m").events == ()
