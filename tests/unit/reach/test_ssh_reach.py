"""What the SSH reach remembers of a node, against real sockets; logins are the lab's."""

import socket
from contextlib import closing

from oncall.bundle.evidence import Outcome
from oncall.reach.protocol import Limits
from oncall.reach.ssh import SshReach
from oncall.run.model import Reach


async def test_a_node_is_tried_again_only_when_asked_for() -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    reach = SshReach(Reach(port=port, connect_timeout_s=0.3))

    async def outcome() -> Outcome:
        return (await reach.run("127.0.0.1", b"true", lambda _: None, Limits(5, 5))).outcome

    assert await outcome() is Outcome.REFUSED
    with closing(socket.create_server(("127.0.0.1", port))):
        assert await outcome() is Outcome.REFUSED
        reach.forget("127.0.0.1")
        assert await outcome() is Outcome.TIMED_OUT
    await reach.close()
