"""Answers of Prometheus' HTTP API, instant and range, and what dcgm-exporter's Xid gauge tells in them.

The gauge holds the last Xid, not a count: the same code twice looks like nothing, a restart of the exporter like
recovery, and `increase()` adds code numbers. Only its changes tell, and they are a lower bound.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from oncall.formats.event import Event, Json
from oncall.formats.metrics_text import host_of, json_number, sample_fields

XID_GAUGE = "DCGM_FI_DEV_XID_ERRORS"

Point = tuple[float, str]


class Series(msgspec.Struct, frozen=True):
    """One series of an answer: `value` in an instant answer, `values` in a range."""

    metric: dict[str, str]
    values: tuple[Point, ...] = ()
    value: Point | None = None


class _Scalar(msgspec.Struct, frozen=True, tag_field="resultType", tag="scalar"):
    result: Point


class _Vector(msgspec.Struct, frozen=True, tag_field="resultType", tag="vector"):
    result: tuple[Series, ...]


class _Matrix(msgspec.Struct, frozen=True, tag_field="resultType", tag="matrix"):
    result: tuple[Series, ...]


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """The API's envelope; `data` is None in an answer that failed."""

    status: Literal["success", "error"]
    data: _Vector | _Matrix | _Scalar | None = None
    error_type: str | None = None
    error: str | None = None
    warnings: tuple[str, ...] = ()


def answer_events(answer: Answer, file: str, lines: int) -> Iterator[Event]:
    """What an answer says. Its events span the whole file, since JSON has no lines of its own.

    A series of the Xid gauge over time gives `xid_metric_change` and `xid_metric_reset`, another one `sample` with its
    last point, and a failed query `query_error`.
    """
    for kind, fields in _said(answer):
        yield Event(kind, file, 1, lines, fields)


def _said(answer: Answer) -> Iterator[tuple[str, dict[str, Json]]]:
    if answer.status == "error":
        yield "query_error", {"error_type": answer.error_type, "error": answer.error}
    elif isinstance(answer.data, _Scalar):
        at, value = answer.data.result
        yield "sample", sample_fields("", float(value), {}, at)
    elif answer.data is not None:
        for series in answer.data.result:
            yield from _series(series)


def _series(series: Series) -> Iterator[tuple[str, dict[str, Json]]]:
    metric = series.metric.get("__name__", "")
    if metric == XID_GAUGE and series.values:
        yield from _xid_changes(series)
        return
    last = series.value or (series.values[-1] if series.values else None)
    if last is not None:
        labels = {name: value for name, value in series.metric.items() if name != "__name__"}
        yield "sample", sample_fields(metric, float(last[1]), labels, last[0])


def _xid_changes(series: Series) -> Iterator[tuple[str, dict[str, Json]]]:
    """Each step of the gauge, after the point at `since`; a first point that already holds a code has no `since`."""
    labels = series.metric
    gpu: dict[str, Json] = {"host": host_of(labels), "gpu": labels.get("gpu"), "uuid": labels.get("UUID")}
    previous: tuple[float, Json] | None = None
    for at, text in series.values:
        value = json_number(float(text))
        old = None if previous is None else previous[1]
        when: dict[str, Json] = {
            "at": json_number(at),
            "since": None if previous is None else json_number(previous[0]),
            "old": old,
        }
        if value not in (old, 0):
            yield "xid_metric_change", {**gpu, **when, "new": value}
        elif value == 0 and old not in (None, 0):
            yield "xid_metric_reset", {**gpu, **when}
        previous = (at, value)


def least_errors(events: Sequence[Event]) -> int:
    """How many Xids the gauge proves at least: one for each change to a code."""
    return sum(event.kind == "xid_metric_change" for event in events)
