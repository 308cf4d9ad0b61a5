"""HTTP sessions that log in as a run file says, and keep every answer byte for byte within bounds of time and size."""

import io
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from requests.auth import AuthBase, HTTPBasicAuth

from oncall.run.model import Endpoint

_MOST_BYTES = 64 * 1024 * 1024
_CHUNK = 1 << 16


class LoginError(Exception):
    """A credential or certificate that the run file names cannot be read."""


class TooLongError(Exception):
    """An answer that did not end in its time or within the bound of its size."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The last answer: status, media type, and the body with any compression undone."""

    status: int
    reason: str
    media_type: str
    body: bytes


class _Bearer(AuthBase):
    """A token as a callable of its own, so that requests does not put a password of ~/.netrc in its place."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class KeepingSession(requests.Session):
    """A session that reads each answer whole until `until` (of `time.monotonic`) and keeps it as `kept`."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Raises LoginError where what the endpoint names cannot be read."""
        super().__init__()
        self.until = time.monotonic() + endpoint.timeout_s
        self.kept: Kept | None = None
        self.auth = _login(endpoint)
        if endpoint.ca is not None:
            self.verify = str(_readable(endpoint.ca))
        if endpoint.tenant is not None:
            self.headers[endpoint.tenant_header] = endpoint.tenant

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """As of requests, but with the body read and kept, within the time left. Raises TimeoutError, TooLongError."""
        self.kept = None
        left_s = self.until - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        response = super().request(*args, **{**kwargs, "stream": True, "timeout": left_s})
        with response:
            body = self._read(response)
        media_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
        self.kept = Kept(response.status_code, response.reason or "", media_type, body)
        whole = requests.Response()
        whole.status_code, whole.reason, whole.url = response.status_code, response.reason, response.url
        whole.headers, whole.raw = response.headers, io.BytesIO(body)
        return whole

    def _read(self, response: requests.Response) -> bytes:
        body = bytearray()
        for chunk in response.iter_content(_CHUNK):
            body += chunk
            if time.monotonic() > self.until:
                raise TooLongError("the answer did not end in time")
            if len(body) > _MOST_BYTES:
                raise TooLongError(f"the answer is longer than {_MOST_BYTES >> 20} MiB")
        return bytes(body)


def _login(endpoint: Endpoint) -> AuthBase | None:
    """How to log in, a token before a password; None where the run file names neither."""
    token = _secret(endpoint.token_env, endpoint.token_file)
    if token is not None:
        return _Bearer(token)
    password = _secret(endpoint.password_env, endpoint.password_file)
    if endpoint.username is None:
        return None
    return HTTPBasicAuth(endpoint.username, password or "")


def _secret(variable: str | None, file: str | None) -> str | None:
    if variable is not None:
        value = os.environ.get(variable)
        if not value:
            raise LoginError(f"the variable {variable} is not set")
        return value
    if file is None:
        return None
    try:
        return _readable(file).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise LoginError(f"{file} is no text") from error


def _readable(name: str) -> Path:
    path = Path(name).expanduser()
    try:
        path.open("rb").close()
    except OSError as error:
        raise LoginError(f"{name}: {error.strerror}") from error
    return path
