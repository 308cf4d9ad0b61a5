"""The alerts of a run: those with its name, and those of its hosts that name no other."""

from datetime import UTC, datetime

import msgspec

from oncall.bundle.evidence import Evidence
from oncall.formats.metrics_alerts import Alert
from oncall.readings.case import Case
from oncall.readings.series_join import joiner

_RUN_LABELS = ("run", "exported_job", "job")
_PAGES = "page"


class AlertRow(msgspec.Struct, frozen=True, kw_only=True):
    """One alert that fires. Times are UTC; `silenced_by` and `inhibited_by` name the silences and alerts behind it.

    A suppressed alert notifies nobody, which is not to say that it is wrong.
    """

    name: str
    severity: str | None
    since: datetime
    summary: str | None
    suppressed: bool
    silenced_by: tuple[str, ...]
    inhibited_by: tuple[str, ...]
    host: str | None
    ranks: tuple[int, ...]

    @property
    def pages(self) -> bool:
        """Whether it is meant to wake somebody."""
        return self.severity == _PAGES


def alert_set(evidence: Evidence) -> tuple[Alert, ...] | None:
    """Read the answer of the `alerts` probe; None where there is none."""
    for _, part in evidence.all_parts("alerts"):
        try:
            return tuple(msgspec.json.decode(part.data, type=list[Alert]))
        except msgspec.DecodeError:
            return None
    return None


def alerts(case: Case) -> tuple[AlertRow, ...] | None:
    """The run's alerts, those that page first, then the oldest; None where Alertmanager did not tell."""
    told = case.view("alerts", alert_set)
    if told is None:
        return None
    known = joiner(case)
    names = {alert.fingerprint: alert.labels.get("alertname", "?") for alert in told}
    rows = []
    for alert in told:
        runs = [alert.labels[label] for label in _RUN_LABELS if label in alert.labels]
        host, ranks = known.host(alert.labels), known.ranks_of(alert.labels)
        if case.run.name in runs or ("run" not in alert.labels and host is not None):
            rows.append(_row(alert, names, host, ranks))
    return tuple(sorted(rows, key=lambda row: (row.suppressed, not row.pages, row.since, row.name)))


def _row(alert: Alert, names: dict[str, str], host: str | None, ranks: tuple[int, ...]) -> AlertRow:
    return AlertRow(
        name=alert.labels.get("alertname", "?"),
        severity=alert.labels.get("severity"),
        since=alert.starts_at.astimezone(UTC),
        summary=alert.annotations.get("summary"),
        suppressed=alert.status.state == "suppressed",
        silenced_by=alert.status.silenced_by,
        inhibited_by=tuple(names.get(each, each) for each in alert.status.inhibited_by),
        host=host,
        ranks=ranks,
    )
