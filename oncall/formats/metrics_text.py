"""Prometheus exposition text (format 0.0.4, and what OpenMetrics 1.0 adds to a sample line)."""

import math
import re
from collections.abc import Iterator, Mapping

from oncall.formats.event import Event, Json
from oncall.formats.kernel_address import gpu_address

_SAMPLE = re.compile(
    r"(?P<metric>[A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{(?P<labels>(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\})?"
    r"\s+(?P<value>[^\s#]+)(?:\s+(?P<at>-?\d+(?:\.\d+)?))?\s*(?:#\s.*)?$"
)
_LABEL = re.compile(r'\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_UNESCAPED = {"n": "\n", '"': '"', "\\": "\\"}

_MILLISECONDS = 10**11
"""Text format 0.0.4 stamps samples in milliseconds, OpenMetrics in seconds; no second of our time is so large."""

# PortState and PortPhysicalState of the InfiniBand Architecture Specification 1.4, volume 1.
_PORT_STATES = {1: "down", 2: "init", 3: "armed", 4: "active", 5: "active_defer"}
_PHYSICAL_STATES = {
    1: "sleep",
    2: "polling",
    3: "disabled",
    4: "training",
    5: "link_up",
    6: "link_error_recovery",
    7: "phy_test",
}
_STATES: Mapping[str, Mapping[int, str]] = {
    "node_infiniband_state_id": _PORT_STATES,
    "node_infiniband_physical_state_id": _PHYSICAL_STATES,
}

_MAX_LINE = 65_536


def samples(data: bytes, file: str, unread: list[int], limit: int) -> Iterator[Event]:
    """Each sample line as an event, `limit` at most; numbers of lines that are none and no comment go to `unread`."""
    kept = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        text = line[:_MAX_LINE].decode("utf-8", "replace").strip()
        if not text or text.startswith("#"):
            continue
        fields = _sample(text)
        if fields is None:
            unread.append(number)
            continue
        yield Event("sample", file, number, number, fields)
        kept += 1
        if kept == limit:
            return


def _sample(text: str) -> dict[str, Json] | None:
    found = _SAMPLE.match(text)
    labels = None if found is None else _labels(found["labels"] or "")
    if found is None or labels is None:
        return None
    try:
        value = float(found["value"])
        at = None if found["at"] is None else float(found["at"])
    except ValueError:
        return None
    seconds = at if at is None or abs(at) < _MILLISECONDS else at / 1000
    return sample_fields(found["metric"], value, labels, seconds)


def _labels(text: str) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        label = _LABEL.match(text, position)
        if label is None:
            return None if text[position:].strip() else labels
        labels[label["name"]] = _ESCAPE.sub(lambda escape: _UNESCAPED.get(escape[1], escape[0]), label["value"])
        position = label.end()
    return labels


def sample_fields(metric: str, value: float, labels: Mapping[str, str], at: float | None) -> dict[str, Json]:
    """The fields of a `sample`: what every exporter's labels are brought to, and the labels as they are.

    dcgm-exporter names the node `Hostname`, from May 2026 `hostname`. A value that is no number is "nan", "inf" or
    "-inf". `at` is in seconds since 1970, None where the line has no time.
    """
    fields: dict[str, Json] = {"metric": metric, "value": json_number(value), "at": json_number(at)}
    for name, label in (("gpu", "gpu"), ("uuid", "UUID"), ("pod", "pod"), ("namespace", "namespace")):
        fields[name] = labels.get(label) or None
    for name in ("container", "device", "port"):
        fields[name] = labels.get(name) or None
    fields["host"] = host_of(labels)
    fields["pci"] = gpu_address(labels.get("pci_bus_id", ""))
    if metric in _STATES:
        fields["state"] = _STATES[metric].get(int(value)) if math.isfinite(value) else None
    fields["labels"] = dict(labels)
    return fields


def host_of(labels: Mapping[str, str]) -> str | None:
    """The node that a series is about, by the labels of dcgm-exporter; None when they do not say."""
    return labels.get("Hostname") or labels.get("hostname") or None


def json_number(value: float | None) -> Json:
    """A number as JSON can hold it: whole ones without a point, those that are not finite as words."""
    if value is None:
        return None
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
