"""Metrics as a file: exposition text of any exporter, an answer of Prometheus, an answer of Alertmanager."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from oncall.formats.event import Event, Json, Parsed
from oncall.formats.metrics_alerts import Alert, alert_events
from oncall.formats.metrics_query import Answer, answer_events, least_errors
from oncall.formats.metrics_text import samples

MAX_SAMPLES = 500_000
"""Samples kept of one file: fifty exporters' worth, and a bound on what a hostile file can cost."""

_LINK_DOWNED = "node_infiniband_link_downed_total"
_PORT_STATE = "node_infiniband_state_id"


def read_metrics(data: bytes, name: str) -> Parsed:
    """All that a file of metrics says; `name` is the file's name as its events carry it.

    Nothing raises: text lines that are no sample are listed as unrecognised, and of JSON that is neither kind of answer
    the first line is.
    """
    start = data.lstrip()[:1]
    if start in {b"[", b"{"}:
        return _read_json(data, name, start)
    unread: list[int] = []
    parsed = Parsed(tuple(samples(data, name, unread, MAX_SAMPLES)), tuple(unread))
    return replace(parsed, summary=summarise_scrapes([parsed]) or None)


def _read_json(data: bytes, name: str, start: bytes) -> Parsed:
    lines = data.rstrip(b"\n").count(b"\n") + 1
    try:
        if start == b"[":
            return Parsed(tuple(alert_events(msgspec.json.decode(data, type=tuple[Alert, ...]), name, lines)))
        answer = msgspec.json.decode(data, type=Answer)
        events = tuple(answer_events(answer, name, lines))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return Parsed((), (1,))
    summary: dict[str, Json] = {"lower_bound_of_errors": least_errors(events)} if _about_xids(events) else {}
    if answer.warnings:
        summary["warnings"] = list(answer.warnings)
    return Parsed(events, (), summary or None)


def _about_xids(events: Sequence[Event]) -> bool:
    return any(event.kind.startswith("xid_metric_") for event in events)


def summarise_scrapes(scrapes: Sequence[Parsed]) -> dict[str, Json]:
    """What scrapes of one exporter, the oldest first, tell of InfiniBand ports; empty where they hold none.

    `down`: ports that were not active in the last scrape. `flapping`: with two or more, ports that lost their link
    since the first.
    """
    last = scrapes[-1]
    if not any(event.text("metric") == _PORT_STATE for event in last.events):
        return {}
    down: list[Json] = list(_down_ports(last.events))
    flapping: list[Json] = list(flapping_ports(scrapes[0], last))
    said: dict[str, Json] = {"down": down}
    if len(scrapes) > 1:
        said["flapping"] = flapping
    return said


def _port(event: Event) -> dict[str, Json]:
    host = event.fields["host"]
    named = {} if host is None else {"host": host}
    return {**named, "device": event.fields["device"], "port": event.fields["port"]}


def _down_ports(events: Iterable[Event]) -> list[dict[str, Json]]:
    return [
        _port(event)
        for event in events
        if event.fields["metric"] == _PORT_STATE and event.fields["state"] in {"down", "init", "armed"}
    ]


def flapping_ports(before: Parsed, after: Parsed) -> list[dict[str, Json]]:
    """InfiniBand ports whose count of lost links grew between two scrapes of one node, with by how much.

    A count that fell was reset with its driver, so it tells no more than what it has reached since. A port that one of
    the scrapes lacks is not judged.
    """
    counts = dict(_lost_links(before.events))
    flapping: list[dict[str, Json]] = []
    for port, (event, now) in dict(_lost_links(after.events)).items():
        if port not in counts:
            continue
        grown = now - counts[port][1] if now >= counts[port][1] else now
        if grown > 0:
            flapping.append({**_port(event), "link_downed_delta": grown})
    return flapping


def _lost_links(events: Iterable[Event]) -> Iterable[tuple[tuple[Json, ...], tuple[Event, int]]]:
    for event in events:
        value = event.fields.get("value")
        if event.fields.get("metric") == _LINK_DOWNED and isinstance(value, int):
            yield tuple(_port(event).values()), (event, value)
