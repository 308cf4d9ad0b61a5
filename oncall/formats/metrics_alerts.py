"""Alertmanager's answer to `GET /api/v2/alerts` (0.2x): which alerts fire, and which are kept quiet by whom."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from oncall.formats.event import Event, Json


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    state: Literal["unprocessed", "active", "suppressed"]
    silenced_by: tuple[str, ...] = ()
    inhibited_by: tuple[str, ...] = ()
    muted_by: tuple[str, ...] = ()


class _Receiver(msgspec.Struct, frozen=True):
    name: str


class Alert(msgspec.Struct, frozen=True, rename="camel"):
    """One alert of the answer; times have a zone."""

    labels: dict[str, str]
    status: _Status
    starts_at: datetime
    fingerprint: str
    annotations: dict[str, str] = {}
    ends_at: datetime | None = None
    updated_at: datetime | None = None
    receivers: tuple[_Receiver, ...] = ()


def alert_events(alerts: Sequence[Alert], file: str, lines: int) -> Iterator[Event]:
    """An `alert` for each; they span the whole file, since JSON has no lines of its own."""
    for alert in alerts:
        yield Event("alert", file, 1, lines, _fields(alert))


def _fields(alert: Alert) -> dict[str, Json]:
    labels = {name: value for name, value in alert.labels.items() if name != "alertname"}
    return {
        "name": alert.labels.get("alertname"),
        "state": alert.status.state,
        "fingerprint": alert.fingerprint,
        "starts_at": _utc(alert.starts_at),
        "ends_at": _utc(alert.ends_at),
        "updated_at": _utc(alert.updated_at),
        "silenced_by": list(alert.status.silenced_by),
        "inhibited_by": list(alert.status.inhibited_by),
        "muted_by": list(alert.status.muted_by),
        "receivers": [receiver.name for receiver in alert.receivers],
        "labels": dict(labels),
        "annotations": dict(alert.annotations),
    }


def _utc(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    text = moment.astimezone(UTC).isoformat().removesuffix("+00:00")
    return (text.rstrip("0") if "." in text else text) + "Z"
