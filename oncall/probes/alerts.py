"""Asks Alertmanager's API v2 for its alerts, those that are silenced or inhibited too."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from requests import RequestException

from oncall.bundle.evidence import NodeAnswer, Part, join_part
from oncall.bundle.probe_folder import ProbeFolder
from oncall.probes.http_failures import Verdict, judge_alerts, judge_failure
from oncall.probes.http_session import KeepingSession, Kept, LoginError, TooLongError
from oncall.probes.workers import Workers
from oncall.run.model import Run

ITEM = "alerts"


class AlertmanagerServer:
    """An Alertmanager. Close it when done; a call that still runs ends by itself."""

    def __init__(self, run: Run) -> None:
        self._endpoint = run.alertmanager
        self._matchers = run.alertmanager.match
        self._workers = Workers(1, "alertmanager")

    def close(self) -> None:
        """Ask nothing more."""
        self._workers.close()

    async def put(self, folder: ProbeFolder, *, boundary: str, on_answer: Callable[[NodeAnswer], None]) -> None:
        """Ask once; the answer is on disk before `on_answer` hears of it."""
        started, clock = datetime.now(UTC), time.monotonic()
        output = folder.open_answer(ITEM)
        until = clock + self._endpoint.timeout_s
        try:
            kept = await self._workers.call(lambda: self._call(until), within_s=self._endpoint.timeout_s)
        except (TimeoutError, RequestException, TooLongError, LoginError) as error:
            verdict: Verdict = judge_failure(error, self._endpoint)
        else:
            verdict = judge_alerts(kept)
            told = {"match": " ".join(self._matchers), "status": str(kept.status), "type": kept.media_type}
            output.write(join_part(Part(ITEM, told, kept.body), boundary))
        answer = NodeAnswer(
            host=ITEM,
            outcome=verdict.outcome,
            reason=verdict.reason,
            started=started,
            took_s=round(time.monotonic() - clock, 3),
            boundary=boundary,
            file=folder.relative(output.close()),
        )
        folder.record(answer)
        on_answer(answer)

    def _call(self, until: float) -> Kept:
        with KeepingSession(self._endpoint) as session:
            session.until = until
            flags = {"active": "true", "silenced": "true", "inhibited": "true", "unprocessed": "false"}
            url = f"{(self._endpoint.url or '').rstrip('/')}/api/v2/alerts"
            session.get(url, params={**flags, "filter": list(self._matchers)})
            assert session.kept is not None
            return session.kept
