"""Reaches nodes with SSH: one connection a node for the whole triage, host keys checked, no prompt ever."""

import asyncio
import resource
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncssh

from oncall.bundle.evidence import Outcome
from oncall.errors import ConfigError
from oncall.reach.lookup import Address, Resolver
from oncall.reach.protocol import Ended, Limits, Stderr, collect
from oncall.run.model import Reach as ReachOptions

_SESSIONS_PER_NODE = 6
"""Scripts at once on one connection; OpenSSH allows ten sessions unless told otherwise (sshd_config, MaxSessions)."""
_KEEPALIVE_S = 15
_AUTHENTICATION = "gssapi-with-mic,publickey"
"""Only what needs nobody at the keyboard."""


class _NotConnectedError(Exception):
    """A node that could not be connected to."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


class SshReach:
    """`Reach` over SSH.

    Only the handshake, which costs CPU time here, is limited to `concurrency` at once. A node that does not answer at
    all, or accepts and then says nothing, waits outside that limit, so that dead nodes delay no living one.
    """

    def __init__(self, options: ReachOptions) -> None:
        self._options = options
        self._handshakes = asyncio.Semaphore(options.concurrency)
        self._connections: dict[str, asyncio.Task[Any]] = {}
        self._sessions: dict[str, asyncio.Semaphore] = {}
        self._jump: asyncio.Task[Any] | None = None
        self._settings = _settings(options)
        self._resolver = Resolver()
        _raise_open_files_limit()

    async def run(self, host: str, script: bytes, sink: Callable[[bytes], None], limits: Limits) -> Ended:
        """As `Reach.run`. A node that could not be reached once is not tried again until `forget`."""
        started, clock, stderr = datetime.now(UTC), time.monotonic(), Stderr()

        def ended(outcome: Outcome, reason: str | None, code: int | None = None) -> Ended:
            return Ended(outcome, started, time.monotonic() - clock, reason, code, stderr.text)

        try:
            connection = await asyncio.shield(self._connection(host))
        except _NotConnectedError as failure:
            return ended(failure.outcome, failure.reason)
        sessions = self._sessions.setdefault(host, asyncio.Semaphore(_SESSIONS_PER_NODE))
        try:
            async with asyncio.timeout(limits.total_s), sessions:
                code = await _execute(connection, script, sink, stderr, limits.silence_s)
        except TimeoutError:
            return ended(Outcome.PARTIAL, f"logged in, {limits.describe()}")
        except (asyncssh.Error, OSError) as error:
            return ended(Outcome.FAILED, f"connection lost: {error}")
        return ended(Outcome.OK, None, code)

    def forget(self, host: str) -> None:
        """Connect anew the next time to a node, or a jump host, that could not be reached or was lost."""
        if _is_lost(self._connections.get(host)):
            del self._connections[host]
        if _is_lost(self._jump):
            self._jump = None

    async def close(self) -> None:
        """Drop all connections, those still being made too."""
        tasks = [*self._connections.values(), *([self._jump] if self._jump else [])]
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(result, BaseException):
                result.abort()

    def _connection(self, host: str) -> "asyncio.Task[Any]":
        if host not in self._connections:
            task = asyncio.create_task(self._connect(host), name=f"ssh {host}")
            task.add_done_callback(_retrieve)
            self._connections[host] = task
        return self._connections[host]

    async def _connect(self, host: str) -> Any:
        seconds = self._options.connect_timeout_s
        address = self._options.addresses.get(host, host)
        awaited = "no address from the resolver"
        try:
            settings = asyncssh.SSHClientConnectionOptions(self._settings, host=address)
            if self._options.jump or settings.tunnel or settings.proxy_command:
                awaited = "no login by way of the jump host or proxy"
                async with asyncio.timeout(2 * seconds), self._handshakes:
                    tunnel = await self._through_jump() if self._options.jump else ()
                    return await asyncssh.connect(address, options=settings, tunnel=tunnel)
            async with asyncio.timeout(seconds):
                found = await self._resolver.addresses(settings.host, settings.port)
                awaited = "no SSH greeting"
                connected = await _greeted_socket(found)
            awaited = "greeted, then no end of the SSH handshake"
            async with self._handshakes, asyncio.timeout(2 * seconds):
                return await asyncssh.connect(address, options=settings, sock=connected)
        except TimeoutError as error:
            raise _NotConnectedError(Outcome.TIMED_OUT, f"{awaited} within {seconds:g} s") from error
        except (asyncssh.Error, OSError, ValueError) as error:
            raise _translate(error, address) from error

    async def _through_jump(self) -> Any:
        if self._jump is None:
            self._jump = asyncio.create_task(self._connect_jump())
            self._jump.add_done_callback(_retrieve)
        return await asyncio.shield(self._jump)

    async def _connect_jump(self) -> Any:
        return await asyncssh.connect(self._options.jump, options=self._settings)


async def _execute(
    connection: Any, script: bytes, sink: Callable[[bytes], None], stderr: Stderr, silence_s: float
) -> int | None:
    process = await connection.create_process("exec /bin/sh -s", encoding=None)
    try:
        process.stdin.write(script)
        process.stdin.write_eof()
        await collect(process.stdout, process.stderr, sink, stderr, silence_s)
        await process.wait_closed()
    finally:
        process.close()
    status: int | None = process.exit_status
    return status


async def _greeted_socket(found: list[Address]) -> socket.socket:
    """A connected socket on which the server has begun to speak; nothing is read from it.

    Addresses are tried in turn, as a resolver gives them.
    """
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for family, kind, protocol, _, address in found:
        connected = socket.socket(family, kind, protocol)
        connected.setblocking(False)
        try:
            await loop.sock_connect(connected, address)
            await _readable(connected)
        except OSError as error:
            failure = error
            connected.close()
        except asyncio.CancelledError:
            connected.close()
            raise
        else:
            return connected
    raise failure or OSError("its name has no address")


async def _readable(connected: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(connected, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connected)


def _translate(error: Exception, address: str) -> _NotConnectedError:
    match error:
        case asyncssh.HostKeyNotVerifiable():
            hint = f"compare its key, then add it: ssh-keyscan {address} >> ~/.ssh/known_hosts"
            outcome, reason = Outcome.UNTRUSTED, f"{error}; {hint}"
        case asyncssh.PermissionDenied():
            outcome, reason = Outcome.DENIED, f"login refused: {error}"
        case ConnectionRefusedError():
            outcome, reason = Outcome.REFUSED, "connection refused"
        case socket.gaierror():
            outcome, reason = Outcome.UNREACHABLE, f"its address is not known: {error.strerror}"
        case OSError():
            outcome, reason = Outcome.UNREACHABLE, error.strerror or str(error)
        case _:
            outcome, reason = Outcome.FAILED, f"SSH: {error}"
    return _NotConnectedError(outcome, reason)


def _settings(options: ReachOptions) -> Any:
    given: dict[str, Any] = {
        "preferred_auth": _AUTHENTICATION,
        "keepalive_interval": _KEEPALIVE_S,
        "config": [options.ssh_config] if options.ssh_config else (),
        "username": options.user or (),
        "port": options.port or (),
    }
    try:
        if options.identity:
            given["client_keys"] = [asyncssh.read_private_key(Path(options.identity).expanduser())]
        if options.known_hosts:
            given["known_hosts"] = asyncssh.read_known_hosts([str(Path(options.known_hosts).expanduser())])
        return asyncssh.SSHClientConnectionOptions(**given)
    except (OSError, asyncssh.Error, ValueError) as error:
        hint = "keys with a passphrase are used through an agent (SSH_AUTH_SOCK)"
        raise ConfigError([f"reach: {error}"], hint) from error


def _is_lost(connecting: "asyncio.Task[Any] | None") -> bool:
    if connecting is None or not connecting.done():
        return False
    return connecting.cancelled() or connecting.exception() is not None or connecting.result().is_closed()


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Take note of a failed connection, which is reported by those who wait for it."""
    if not task.cancelled():
        task.exception()


def _raise_open_files_limit() -> None:
    """A socket a node: the usual soft limit of 1,024 open files is too low for a thousand nodes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
