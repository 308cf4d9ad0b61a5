"""What is asked of a run's Prometheus and Alertmanager, probe by probe."""

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from oncall.bundle.evidence import Evidence, NodeAnswer
from oncall.bundle.probe_folder import ProbeFolder
from oncall.probes.alerts import AlertmanagerServer
from oncall.probes.metric_questions import WINDOW_S, Question, baseline_questions, now_questions
from oncall.probes.metrics import PrometheusServer
from oncall.readings.baseline import baseline_end
from oncall.run.model import Run

OnAnswer = Callable[[NodeAnswer], None]


class Servers:
    """The servers of a run that its file names."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._now = datetime.now(UTC)
        self._prometheus = PrometheusServer(run.prometheus) if run.prometheus.url else None
        self._alertmanager = AlertmanagerServer(run) if run.alertmanager.url else None
        self._questions: dict[str, Mapping[str, tuple[Question, ...]]] = {}

    def items(self, probe: str, earlier: Evidence | None) -> tuple[str, ...]:
        """What a probe asks for, by name; nothing where no server is named or there is no time to compare with.

        `earlier` is what `metrics` brought, which tells when the run was at its best.
        """
        if probe == "alerts":
            return () if self._alertmanager is None else ("alerts",)
        if self._prometheus is None:
            return ()
        if probe == "metrics":
            self._now = datetime.now(UTC)
            self._questions[probe] = now_questions(self._run, self._now)
        else:
            end = None if earlier is None else baseline_end(earlier, self._run, self._now, WINDOW_S)
            self._questions[probe] = {} if end is None else baseline_questions(self._run, end)
        return tuple(self._questions[probe])

    async def put(self, probe: str, folder: ProbeFolder, on_answer: OnAnswer) -> None:
        """Ask, and keep every answer in `folder`; `items` has named what."""
        boundary = f"oncall-{secrets.token_hex(8)}"
        if probe == "alerts" and self._alertmanager is not None:
            await self._alertmanager.put(folder, boundary=boundary, on_answer=on_answer)
        elif self._prometheus is not None:
            await self._prometheus.put(folder, self._questions[probe], boundary=boundary, on_answer=on_answer)

    def close(self) -> None:
        """Ask nothing more."""
        for server in (self._prometheus, self._alertmanager):
            if server is not None:
                server.close()
