"""The metrics probe against real HTTP servers: every way not to answer is named, and what came is kept as it came."""

import asyncio
import base64
import json
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from oncall.bundle.evidence import Evidence, Outcome
from oncall.bundle.store import Bundle, Manifest
from oncall.probes.metric_questions import Question
from oncall.probes.metrics import PrometheusServer
from oncall.run.model import Endpoint, Prometheus

from ...lab.ports import START_S, address_told

NOW = datetime(2026, 3, 3, 3, 0, 0, tzinfo=UTC)
GOOD = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1772506800,"1"]}]}}'
QUESTIONS = {"one": (Question("now", "up", NOW),)}

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def web(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server that answers every request in one way."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *args: object) -> None:
            """Keep the test's output clean."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: object) -> None:
            """A client that gives up is what some tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            scheme = "http" if context is None else "https"
            yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def send(status: int, body: bytes, media_type: str = "application/json") -> Answer:
    """An answer with this status and body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", media_type)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def ask(folder: Path, endpoint: Endpoint, questions: dict[str, tuple[Question, ...]] | None = None) -> Evidence:
    """Put some questions and return what is kept."""
    bundle = Bundle.create(Manifest(run="run42", started=NOW), "", folder / "bundle")

    async def put() -> Evidence:
        asked = questions or QUESTIONS
        server = PrometheusServer(endpoint)
        try:
            kept = bundle.probe_folder("metrics", asked)
            return await server.put(kept, asked, boundary="oncall-test", on_answer=lambda _: None)
        finally:
            server.close()

    return asyncio.run(put())


def outcome(evidence: Evidence) -> tuple[Outcome, str | None]:
    answer = evidence.answers["one"]
    return answer.outcome, answer.reason


@pytest.mark.parametrize(
    ("answer", "expected", "reason"),
    [
        (send(401, b"no"), Outcome.DENIED, "HTTP 401 Unauthorized: check the login of the run file"),
        (send(403, b"no"), Outcome.DENIED, "HTTP 403 Forbidden: check the login of the run file"),
        (send(503, b"Service Unavailable", "text/plain"), Outcome.FAILED, "HTTP 503 Service Unavailable: Service Una"),
        (
            send(400, b'{"status":"error","errorType":"bad_data","error":"parse error: unexpected )"}'),
            Outcome.FAILED,
            "HTTP 400 Bad Request: parse error: unexpected )",
        ),
        (
            send(200, b"<html>Log in</html>", "text/html"),
            Outcome.FAILED,
            "wrong content: text/html where Prometheus answers JSON",
        ),
        (send(200, b'{"hello":1}'), Outcome.FAILED, "wrong content: JSON that is no whole answer of Prometheus"),
        (send(200, GOOD[:40]), Outcome.FAILED, "wrong content: JSON that is no whole answer of Prometheus"),
        (
            send(200, GOOD[:-1] + b',"warnings":["store 10.0.0.7 is down"]}'),
            Outcome.PARTIAL,
            "partial answer: store 10.0.0.7 is down",
        ),
        (send(200, GOOD[:-1] + b',"warnings":["PromQL info: metric might not be a counter"]}'), Outcome.OK, None),
        (send(200, GOOD), Outcome.OK, None),
    ],
    ids=["401", "403", "503", "bad-query", "login-page", "other-json", "cut", "partial", "promql-remark", "good"],
)
def test_each_answer_is_named_for_what_it_is(
    answer: Answer, expected: Outcome, reason: str | None, tmp_path: Path
) -> None:
    with web(answer) as url:
        got, told = outcome(ask(tmp_path, Endpoint(url=url, timeout_s=5)))
    assert got is expected
    assert (told or "").startswith(reason or "")
    assert (told is None) == (reason is None)


def test_what_came_is_kept_byte_for_byte(tmp_path: Path) -> None:
    body = GOOD + b"\n\xff\n"
    with web(send(200, body)) as url:
        (part,) = ask(tmp_path, Endpoint(url=url)).parts("one")
    assert part.data == body
    assert (part.name, part.attributes["query"], part.attributes["status"]) == ("now", "up", "200")


def test_nothing_listens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    got, told = outcome(ask(tmp_path, Endpoint(url=f"http://127.0.0.1:{port}", timeout_s=5)))
    assert (got, told) == (Outcome.REFUSED, "connection refused: nothing listens there")


def test_one_query_that_hangs_delays_no_other_and_is_a_time_out(tmp_path: Path) -> None:
    """Each has its own deadline; a time-out is not tried again and not taken for a broken connection."""
    release = threading.Event()
    calls: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        calls.append(handler.path)
        if "slow" in handler.path:
            release.wait(10)
        send(200, GOOD)(handler)

    questions = {name: (Question("now", name, NOW),) for name in ("slow", "a", "b", "c")}
    with web(answer) as url:
        began = time.monotonic()
        evidence = ask(tmp_path, Endpoint(url=url, timeout_s=1), questions)
        took_s = time.monotonic() - began
        release.set()
    assert evidence.answers["slow"].outcome is Outcome.TIMED_OUT
    assert evidence.answers["slow"].reason == "no answer within 1 s"
    assert evidence.coverage.answered == ("a", "b", "c")
    assert evidence.coverage.describe() == "3 of 4 queries answered; slow: no answer within 1 s"
    assert max(evidence.answers[name].took_s for name in "abc") < 1
    assert took_s < 2
    assert sum("slow" in path for path in calls) == 1


def test_an_answer_that_trickles_ends_at_the_deadline(tmp_path: Path) -> None:
    class Trickle(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4096)
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n")
            try:
                while not ended.wait(0.05):
                    self.request.sendall(b" ")
            except OSError:
                return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    ended = threading.Event()
    with Server(("127.0.0.1", 0), Trickle) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        began = time.monotonic()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        got, told = outcome(ask(tmp_path, Endpoint(url=url, timeout_s=1)))
        took_s = time.monotonic() - began
        ended.set()
        server.shutdown()
        thread.join()
    assert (got, told) == (Outcome.TIMED_OUT, "no answer within 1 s")
    assert took_s < 2


def test_a_server_that_is_down_for_a_moment_is_asked_once_more(tmp_path: Path) -> None:
    answers = [send(503, b"starting"), send(200, GOOD)]

    def answer(handler: BaseHTTPRequestHandler) -> None:
        answers.pop(0)(handler)

    with web(answer) as url:
        assert outcome(ask(tmp_path, Endpoint(url=url, timeout_s=5))) == (Outcome.OK, None)


def headers_sent(folder: Path, **settings: str) -> dict[str, str]:
    """The headers of a request with these settings of the run file."""
    seen: dict[str, str] = {}

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.update(handler.headers.items())
        send(200, GOOD)(handler)

    with web(answer) as url:
        assert outcome(ask(folder, Endpoint(url=url, **settings))) == (Outcome.OK, None)  # type: ignore[arg-type]
    return seen


def test_logins_come_from_files_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login other password wrong\n")
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / "secret").write_text("s3cret\n")
    monkeypatch.setenv("TOKEN_OF_TEST", "t0ken")
    basic = headers_sent(tmp_path / "1", username="oncall", password_file="~/secret")
    assert base64.b64decode(basic["Authorization"].removeprefix("Basic ")) == b"oncall:s3cret"
    bearer = headers_sent(tmp_path / "2", token_env="TOKEN_OF_TEST", tenant="team-a")
    assert (bearer["Authorization"], bearer["X-Scope-OrgID"]) == ("Bearer t0ken", "team-a")


def test_a_secret_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN_OF_TEST", raising=False)
    endpoint = Endpoint(url="http://127.0.0.1:9", token_env="TOKEN_OF_TEST")
    assert outcome(ask(tmp_path / "1", endpoint)) == (Outcome.FAILED, "the variable TOKEN_OF_TEST is not set")
    endpoint = Endpoint(url="http://127.0.0.1:9", username="u", password_file=str(tmp_path / "none"))
    got, told = outcome(ask(tmp_path / "2", endpoint))
    assert (got, told) == (Outcome.FAILED, f"{tmp_path}/none: No such file or directory")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "ca.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    subprocess.run([*argv, "-keyout", key, "-out", certificate, *names], check=True, capture_output=True)
    return certificate, key


def test_a_certificate_is_trusted_only_by_its_own_authority(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with web(send(200, GOOD), context) as url:
        got, told = outcome(ask(tmp_path / "1", Endpoint(url=url, timeout_s=5)))
        assert got is Outcome.UNTRUSTED
        assert (told or "").startswith("certificate not trusted: ")
        trusted = Endpoint(url=url, timeout_s=5, ca=str(certificate[0]))
        assert outcome(ask(tmp_path / "2", trusted)) == (Outcome.OK, None)


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[str]:
    """A real Prometheus without data that wants a user name and password; yields its address."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed")
    # bcrypt of "s3cret", cost 4, so that the test does not wait for the hash.
    hashed = "$2b$04$abcdefghijklmnopqrstuuLZYjhNQAOdpbzt4WxWlUHjv1wsyH5DG"
    (tmp_path / "web.yml").write_text(f"basic_auth_users:\n  oncall: {hashed}\n")
    (tmp_path / "prometheus.yml").write_text("{}\n")
    options = [f"--config.file={tmp_path}/prometheus.yml", f"--web.config.file={tmp_path}/web.yml"]
    more = [f"--storage.tsdb.path={tmp_path}/tsdb", "--web.listen-address=127.0.0.1:0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([program, *options, *more], stdout=log, stderr=log)
    try:
        address = address_told(tmp_path / "log", process)
        _wait_until_ready(tmp_path / "log", process)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_until_ready(log: Path, process: "subprocess.Popen[bytes]") -> None:
    """It listens before it answers queries, with 503 until then."""
    until = time.monotonic() + START_S
    while "ready to receive web requests" not in log.read_text():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_real_prometheus_says_no_series_bad_query_and_denied(prometheus: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    good = Prometheus(url=prometheus, username="oncall", password_file=str(tmp_path / "secret"), timeout_s=20)
    questions = {"one": (Question("now", "vector(1)", NOW), Question("past", "up", NOW, NOW, 30.0))}
    evidence = ask(tmp_path / "1", good, questions)
    assert outcome(evidence) == (Outcome.OK, None)
    now, past = evidence.parts("one")
    assert json.loads(now.data)["data"]["result"][0]["value"][1] == "1"
    assert json.loads(past.data)["data"] == {"resultType": "matrix", "result": []}
    got, told = outcome(ask(tmp_path / "2", good, {"one": (Question("now", "sum(", NOW),)}))
    assert got is Outcome.FAILED
    assert (told or "").startswith("HTTP 400 Bad Request: ")
    got, told = outcome(ask(tmp_path / "3", Prometheus(url=prometheus, timeout_s=20)))
    assert (got, told) == (Outcome.DENIED, "HTTP 401 Unauthorized: check the login of the run file")
