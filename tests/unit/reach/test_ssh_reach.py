"""What the SSH reach remembers of a node and of a jump host, against real sockets; logins are the lab's."""

import socket
from contextlib import closing

import pytest

from oncall.bundle.evidence import Outcome
from oncall.reach.protocol import Limits
from oncall.reach.ssh import SshReach
from oncall.run.model import Reach


@pytest.mark.parametrize("jump", [None, "127.0.0.1"])
async def test_a_node_is_tried_again_only_when_asked_for(jump: str | None) -> None:
    with closing(socket.socket()) as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        reach = SshReach(Reach(port=port, jump=jump, connect_timeout_s=0.3))

        async def outcome() -> Outcome:
            return (await reach.run("127.0.0.1", b"true", lambda _: None, Limits(5, 5))).outcome

        assert await outcome() is Outcome.REFUSED
        with closing(socket.create_server(("127.0.0.1", port))):
            assert await outcome() is Outcome.REFUSED
            reach.forget("127.0.0.1")
            assert await outcome() is Outcome.TIMED_OUT
        await reach.close()
