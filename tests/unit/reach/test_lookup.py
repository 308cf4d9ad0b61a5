"""Host names whose resolver is silent: no other node waits for them, and neither does the end."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from oncall.bundle.evidence import Outcome
from oncall.reach.protocol import Limits
from oncall.reach.ssh import SshReach
from oncall.run.model import Reach as ReachOptions

SILENT = [f"silent{number}" for number in range(40)]
"""More than the event loop has threads of its own."""


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A resolver that answers for names that begin with `silent` only once the event is set."""
    released, real = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: str, *args: Any, **options: Any) -> Any:
        if host.startswith("silent"):
            released.wait(60)
        return real("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield released
    released.set()


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_silent_resolver_holds_up_neither_another_node_nor_the_end(
    resolver: threading.Event, closed_port: int
) -> None:
    async def outcomes() -> list[Outcome]:
        reach = SshReach(ReachOptions(port=closed_port, connect_timeout_s=1.0))
        asked = (reach.run(host, b"", lambda _: None, Limits(60, 60)) for host in [*SILENT, "living"])
        ended = await asyncio.gather(*asked)
        await reach.close()
        return [each.outcome for each in ended]

    assert asyncio.run(outcomes()) == [*[Outcome.TIMED_OUT] * len(SILENT), Outcome.REFUSED]
    assert not resolver.is_set(), "nothing waited for the resolver"


def test_equal_reasons_are_spelled_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)

    async def reasons() -> set[str | None]:
        reach = SshReach(ReachOptions())
        asked = (reach.run(host, b"", lambda _: None, Limits(60, 60)) for host in ("node001", "node002"))
        return {each.reason for each in await asyncio.gather(*asked)}

    assert asyncio.run(reasons()) == {"its address is not known: Name or service not known"}
