"""What an HTTP answer, or the lack of one, means, in words for the operator."""

import socket
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

import msgspec
import requests
from urllib3.exceptions import NameResolutionError, NewConnectionError

from oncall.bundle.evidence import Outcome
from oncall.formats.metrics_alerts import Alert
from oncall.probes.http_session import Kept
from oncall.run.model import Endpoint

_LONGEST = 200
_PARTIAL_BUT_WHOLE = ("PromQL info", "PromQL warning")
"""Remarks on the expression, not on missing data (Prometheus 3.0, util/annotations/annotations.go)."""

_WEIGHTS = {Outcome.OK: 0, Outcome.PARTIAL: 1}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a request ended; `reason` explains every outcome but `OK`."""

    outcome: Outcome
    reason: str | None = None

    @property
    def weight(self) -> int:
        """How much is missing: the heaviest of several tells of all."""
        return _WEIGHTS.get(self.outcome, 2)


class _Envelope(msgspec.Struct):
    """What every answer of Prometheus' HTTP API has around its data."""

    status: Literal["success", "error"]
    error: str | None = None
    warnings: tuple[str, ...] = ()


def judge_answer(kept: Kept) -> Verdict:
    """Whether what came is a whole answer of Prometheus' API."""
    if kept.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Verdict(Outcome.DENIED, f"{_status(kept)}: check the login of the run file")
    try:
        told = msgspec.json.decode(kept.body, type=_Envelope)
    except msgspec.DecodeError:
        return Verdict(Outcome.FAILED, _no_api(kept))
    if told.status == "error" or kept.status != HTTPStatus.OK:
        return Verdict(Outcome.FAILED, f"{_status(kept)}: {_short(told.error or 'no reason given')}")
    lacking = [warning for warning in told.warnings if not warning.startswith(_PARTIAL_BUT_WHOLE)]
    if lacking:
        return Verdict(Outcome.PARTIAL, f"partial answer: {_short('; '.join(lacking))}")
    return Verdict(Outcome.OK)


def judge_alerts(kept: Kept) -> Verdict:
    """Whether what came is an answer of Alertmanager's list of alerts."""
    if kept.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Verdict(Outcome.DENIED, f"{_status(kept)}: check the login of the run file")
    if kept.status != HTTPStatus.OK:
        return Verdict(Outcome.FAILED, f"{_status(kept)}: {_short(kept.body.decode('utf-8', 'replace'))}")
    try:
        msgspec.json.decode(kept.body, type=list[Alert])
    except msgspec.DecodeError:
        told = _short(kept.media_type or "no media type")
        return Verdict(Outcome.FAILED, f"wrong content: {told} that is no list of alerts")
    return Verdict(Outcome.OK)


def _no_api(kept: Kept) -> str:
    if kept.status != HTTPStatus.OK:
        return f"{_status(kept)}: {_short(kept.body.decode('utf-8', 'replace'))}"
    if kept.media_type == "application/json":
        return "wrong content: JSON that is no whole answer of Prometheus"
    return f"wrong content: {_short(kept.media_type or 'no media type')} where Prometheus answers JSON"


def _status(kept: Kept) -> str:
    return f"HTTP {kept.status} {_short(kept.reason)}".rstrip()


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def judge_failure(error: Exception, endpoint: Endpoint) -> Verdict:
    """Why there is no answer at all."""
    within = f"within {endpoint.timeout_s:g} s"
    cause = _innermost(error)
    match error:
        case requests.ConnectTimeout():
            return Verdict(Outcome.UNREACHABLE, f"no connection {within}")
        case TimeoutError() | requests.ReadTimeout():
            return Verdict(Outcome.TIMED_OUT, f"no answer {within}")
        case requests.exceptions.SSLError():
            told = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else str(cause)
            return Verdict(Outcome.UNTRUSTED, f"certificate not trusted: {_short(told)}")
        case requests.ConnectionError():
            return _no_connection(cause)
        case _:
            return Verdict(Outcome.FAILED, _short(str(error)))


def _no_connection(cause: BaseException) -> Verdict:
    if isinstance(cause, ConnectionRefusedError):
        return Verdict(Outcome.REFUSED, "connection refused: nothing listens there")
    if isinstance(cause, socket.gaierror | NameResolutionError):
        return Verdict(Outcome.UNREACHABLE, "the host name is not known")
    if isinstance(cause, NewConnectionError | OSError):
        return Verdict(Outcome.UNREACHABLE, f"no connection: {_short(str(cause))}")
    return Verdict(Outcome.FAILED, f"the connection broke: {_short(str(cause))}")


def _innermost(error: BaseException) -> BaseException:
    """The first cause; requests and urllib3 wrap theirs in arguments, `reason` and `__cause__`."""
    seen = {id(error)}
    while True:
        nested = (getattr(error, "reason", None), error.__cause__, error.__context__, *error.args)
        inner = next((each for each in nested if isinstance(each, BaseException) and id(each) not in seen), None)
        if inner is None:
            return error
        seen.add(id(inner))
        error = inner
