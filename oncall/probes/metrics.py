"""Puts queries to a Prometheus, all at once, each with its own deadline, and keeps every answer as it came."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests import RequestException
from urllib3.util.retry import Retry

from oncall.bundle.evidence import Evidence, NodeAnswer, Outcome, Part, join_part
from oncall.bundle.probe_folder import ProbeFolder
from oncall.probes.http_failures import Verdict, judge_answer, judge_failure
from oncall.probes.http_session import KeepingSession, Kept, LoginError, TooLongError
from oncall.probes.metric_questions import Question
from oncall.probes.workers import Workers
from oncall.run.model import Endpoint

_WORKERS = 8

RETRY = Retry(
    total=1,
    read=False,
    redirect=3,
    status_forcelist=(429, 502, 503),
    backoff_factor=0.2,
    respect_retry_after_header=False,
    raise_on_status=False,
)
"""Once more for what may pass. A time-out is final: the library's own default tries four times and then reports a
connection that failed."""


@dataclass(frozen=True, slots=True)
class _Answered:
    part: Part | None
    verdict: Verdict


class PrometheusServer:
    """A Prometheus, or what answers like it. Close it when done; calls that still run end by themselves."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._workers = Workers(_WORKERS, "prometheus")
        self._own = threading.local()
        self._opened: list[_Connection] = []

    def close(self) -> None:
        """Ask nothing more, and let go of the connections that are idle."""
        self._workers.close()
        for connection in self._opened:
            connection.session.close()

    async def put(
        self,
        folder: ProbeFolder,
        asked: Mapping[str, tuple[Question, ...]],
        *,
        boundary: str,
        on_answer: Callable[[NodeAnswer], None],
    ) -> Evidence:
        """Put every question of every item at the same time; an answer is on disk before `on_answer` hears of it.

        If this is cancelled, the items that have not answered are recorded as such.
        """

        async def put_item(name: str, questions: tuple[Question, ...]) -> None:
            started, clock = datetime.now(UTC), time.monotonic()
            answers = [_Answered(None, Verdict(Outcome.CANCELLED, "the triage ended first"))]
            try:
                answers = await asyncio.gather(*(self._ask(question) for question in questions))
            finally:
                took_s = time.monotonic() - clock
                answer = _record(folder, name, answers, boundary=boundary, started=started, took_s=took_s)
                on_answer(answer)

        async with asyncio.TaskGroup() as tasks:
            for name, questions in asked.items():
                tasks.create_task(put_item(name, questions), name=f"query {name}")
        return folder.evidence()

    async def _ask(self, question: Question) -> _Answered:
        until = time.monotonic() + self._endpoint.timeout_s
        try:
            kept = await self._workers.call(lambda: self._call(question, until), within_s=self._endpoint.timeout_s)
        except (TimeoutError, RequestException, TooLongError, LoginError) as error:
            return _Answered(None, judge_failure(error, self._endpoint))
        return _Answered(_part(question, kept), judge_answer(kept))

    def _call(self, question: Question, until: float) -> Kept:
        """In a thread of its own session: sessions of requests are not made to be shared."""
        connection = self._connection()
        connection.session.until = until
        try:
            connection.query(question, self._endpoint.timeout_s)
        except (PrometheusApiClientException, ValueError, LookupError, TypeError) as error:
            # Raised over the answer's status or content, which is judged from the answer itself.
            if connection.session.kept is None:
                raise ConnectionError(str(error)) from error
        kept = connection.session.kept
        assert kept is not None
        return kept

    def _connection(self) -> "_Connection":
        known: _Connection | None = getattr(self._own, "connection", None)
        if known is None:
            known = self._own.connection = _Connection(self._endpoint)
            self._opened.append(known)
        return known


@dataclass
class _Connection:
    endpoint: Endpoint
    session: KeepingSession = field(init=False)
    client: PrometheusConnect = field(init=False)

    def __post_init__(self) -> None:
        self.session = KeepingSession(self.endpoint)
        url = (self.endpoint.url or "").rstrip("/")
        self.client = PrometheusConnect(url=url, session=self.session, retry=RETRY)

    def query(self, question: Question, within_s: float) -> None:
        """Ask by the library; what counts is what the session kept. The server is told the deadline too."""
        limit = {"timeout": f"{round(within_s * 1000)}ms"}
        if question.start is None or question.step_s is None:
            at = {"time": f"{question.end.timestamp():.3f}", **limit}
            self.client.custom_query(question.query, params=at)
        else:
            self.client.custom_query_range(
                question.query, question.start, question.end, f"{question.step_s:g}", params=limit
            )


def _part(question: Question, kept: Kept) -> Part:
    """An answer with what was asked. Range bounds are whole seconds, as the library sends them."""
    told = {"query": question.query, "end": f"{question.end.timestamp():.3f}"}
    if question.start is not None and question.step_s is not None:
        bounds = (round(question.start.timestamp()), round(question.end.timestamp()))
        told |= {"start": str(bounds[0]), "end": str(bounds[1]), "step": f"{question.step_s:g}"}
    return Part(question.part, {**told, "status": str(kept.status), "type": kept.media_type}, kept.body)


def _record(
    folder: ProbeFolder, name: str, answers: list[_Answered], *, boundary: str, started: datetime, took_s: float
) -> NodeAnswer:
    output = folder.open_answer(name)
    parts = [each.part for each in answers if each.part is not None]
    try:
        for part in parts:
            output.write(join_part(part, boundary))
    except OSError:
        parts = []
    worst = max((each.verdict for each in answers), key=lambda verdict: verdict.weight)
    answer = NodeAnswer(
        host=name,
        outcome=worst.outcome,
        reason=worst.reason,
        started=started,
        took_s=round(took_s, 3),
        boundary=boundary,
        file=folder.relative(output.close()),
    )
    folder.record(answer)
    return answer
