"""Recorded incidents as they would be had something else happened: a silent node, alerts, an operator at work."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from oncall.bundle.evidence import NodeAnswer, Outcome, Part, join_part
from oncall.bundle.store import Bundle
from oncall.playbook.events import Acted, Noted, ProbeFinished, StepJudged, WalkStarted

SILENT = "no connection within 6 s"


def silence(bundle: Bundle, host: str) -> None:
    """As if this node had been reached by nobody."""
    for index in (bundle.path / "evidence").glob("*/*/index.jsonl"):
        answers = [msgspec.json.decode(line, type=NodeAnswer) for line in index.read_bytes().splitlines()]
        silent = [
            answer
            if answer.host != host
            else msgspec.structs.replace(answer, outcome=Outcome.UNREACHABLE, reason=SILENT, file=None, stderr="")
            for answer in answers
        ]
        index.write_bytes(b"".join(msgspec.json.encode(answer) + b"\n" for answer in silent))


def alert(bundle: Bundle, name: str, minutes: int, *, silenced_by: str | None = None) -> dict[str, Any]:
    """One alert as Alertmanager's API v2 lists it, that began this long before the triage."""
    since = bundle.manifest.started.astimezone(UTC) - timedelta(minutes=minutes)
    return {
        "annotations": {"summary": f"{name} says that something is wrong"},
        "endsAt": "2027-01-01T00:00:00.000Z",
        "fingerprint": f"{minutes:016x}",
        "receivers": [{"name": "pager"}],
        "startsAt": since.isoformat().replace("+00:00", "Z"),
        "status": {
            "inhibitedBy": [],
            "silencedBy": [silenced_by] if silenced_by else [],
            "state": "suppressed" if silenced_by else "active",
        },
        "updatedAt": since.isoformat().replace("+00:00", "Z"),
        "labels": {"alertname": name, "severity": "page", "run": bundle.manifest.run},
    }


def fire(bundle: Bundle, *alerts: dict[str, Any]) -> None:
    """As if Alertmanager had told these alerts."""
    folder = bundle.probe_folder("alerts", ("alerts",))
    output = folder.open_answer("alerts")
    output.write(join_part(Part("alerts", {}, msgspec.json.encode(alerts)), "b"))
    answer = NodeAnswer(
        host="alerts",
        outcome=Outcome.OK,
        started=bundle.manifest.started,
        took_s=0.1,
        boundary="b",
        file=folder.relative(output.close()),
    )
    folder.record(answer)


def operate(bundle: Bundle, at: datetime, step: str, verdict: str) -> None:
    """As if an operator had walked, overruled a step, noted something and run an action."""
    overruled = StepJudged(
        at=at,
        step=step,
        verdict=verdict,
        reason="as read",
        findings=(),
        leads_to="x",
        overruled_because="I saw it move",
    )
    for event in (
        ProbeFinished(at=at, probe="kernel", answered=1, asked=2),
        WalkStarted(at=at, playbook="hang", guided=False),
        overruled,
        Noted(at=at, text="paged the people of the network"),
        Acted(at=at, command="echo drained node002", host="node002", exit_code=3, output="no such partition"),
    ):
        bundle.append_event(event)
