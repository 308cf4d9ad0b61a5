"""Where a walk's evidence comes from: the nodes, or a bundle that was recorded."""

import asyncio
import shutil
import sys
import time
from base64 import b64encode
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from oncall.bundle.evidence import QUERIES, Evidence
from oncall.bundle.probe_folder import ProbeFolder
from oncall.bundle.store import Bundle
from oncall.flight_recorder.reducer import reducer_source
from oncall.playbook.engine import Listener
from oncall.playbook.events import Waiting
from oncall.playbook.servers import Servers
from oncall.playbook.turns import Turns
from oncall.probes.catalogue import CHEAP, PROBES, SERVERS
from oncall.probes.probe import Probe
from oncall.reach.protocol import Reach
from oncall.readings.case import Case
from oncall.readings.dump_list import dump_list
from oncall.readings.process_table import process_table
from oncall.readings.suspected import suspected_ranks

_WHOLE_UP_TO_BYTES = 64 * 1024 * 1024
"""Dumps larger than this in all are reduced on the nodes: 1,024 ranks with 2,000 entries each are 290 MB."""
_POLL_S = 2.0
_FETCH_RESERVE_S = 15.0
"""Of the triage's time, what waiting for dumps leaves for fetching and reading them."""


class RecordedSource:
    """Evidence of a bundle, as it was recorded."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._read: dict[str, Evidence | None] = {}

    async def evidence(self, probe: str, case: Case, *, patience_s: float | None = None) -> Evidence | None:
        """The newest turn of the probe, or None where it was never put."""
        if probe not in self._read:
            self._read[probe] = self._bundle.evidence(probe)
        return self._read[probe]

    async def close(self) -> None:
        """Nothing is held open."""


class LiveSource:
    """Evidence straight from the nodes, kept in the bundle as it arrives.

    The cheap probes start together when this is made; the others when they are asked for. `deadline` is when the
    whole triage has to have its answer, on the clock of `time.monotonic`.
    """

    def __init__(self, bundle: Bundle, reach: Reach, hosts: tuple[str, ...], listen: Listener, deadline: float) -> None:
        self._bundle = bundle
        self._reach = reach
        self._hosts = hosts
        self._listen = listen
        self._deadline = deadline
        self._turns = Turns(bundle, reach, listen)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._servers: Servers | None = None

    def start(self, case: Case) -> None:
        """Put the cheap probes to all nodes, and what is asked of servers to them."""
        for name in (*CHEAP, *SERVERS):
            self._task(name, case)

    async def evidence(self, probe: str, case: Case, *, patience_s: float | None = None) -> Evidence | None:
        """What the probe brought by the deadline; nodes that have not answered by then count as missing."""
        task = self._task(probe, case)
        left = max(0.0, self._deadline - time.monotonic())
        done, _ = await asyncio.wait({task}, timeout=left if patience_s is None else min(left, patience_s))
        if done and not task.cancelled():
            task.result()
        return self._turns.evidence(probe, ended=bool(done))

    def extend(self, deadline: float) -> None:
        """Let what is asked from now on be answered until then."""
        self._deadline = max(self._deadline, deadline)

    def renew(self, probe: str) -> None:
        """Put a probe anew the next time it is asked for."""
        task = self._tasks.pop(probe, None)
        if task is not None:
            task.cancel()
        self._turns.forget(probe)

    async def ask_again(self, host: str, case: Case) -> None:
        """Put every probe that one node did not answer in full to that node once more."""
        self._reach.forget(host)
        lacking = [folder for folder in self._turns.lacking(host) if folder.probe in PROBES]
        await asyncio.gather(*(self._put(PROBES[folder.probe], case, (host,), folder) for folder in lacking))

    def lacking(self, host: str) -> tuple[str, ...]:
        """The probes that a node was asked and did not answer in full."""
        return tuple(folder.probe for folder in self._turns.lacking(host))

    async def put(self, probe: Probe, case: Case, *, keep_as: str | None = None) -> Evidence:
        """Put a probe to all nodes now; its answers are kept under `keep_as`, else under its own name."""
        folder = await self._turns.ask(probe, case, self._hosts, keep_as=keep_as)
        return folder.evidence()

    async def close(self) -> None:
        """End what is still being asked; what it brought so far is kept."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._servers is not None:
            self._servers.close()

    def _task(self, probe: str, case: Case) -> "asyncio.Task[None]":
        if probe not in self._tasks:
            self._tasks[probe] = asyncio.create_task(self._work(probe, case), name=f"probe {probe}")
        return self._tasks[probe]

    def _work(self, probe: str, case: Case) -> Coroutine[None, None, None]:
        if probe == "flight_recorder":
            return self._fetch_dumps(case)
        if probe == "stack_samples":
            return self._sample_stacks(case)
        return self._query(probe, case) if probe in QUERIES else self._put(PROBES[probe], case, self._hosts)

    async def _sample_stacks(self, case: Case) -> None:
        """Look several times at the ranks that are suspected, and at no other."""
        ranks = suspected_ranks(case)
        hosts = case.ranks.hosts_of(ranks)
        if hosts:
            await self._turns.ask(
                PROBES["stack_samples"], case, hosts, extra={"ONLY": " ".join(str(rank) for rank in sorted(ranks))}
            )

    async def _query(self, probe: str, case: Case) -> None:
        """Ask a server; nothing is asked, and there is no evidence, where the run file names none."""
        if self._servers is None:
            self._servers = Servers(case.run)
        earlier = await self.evidence("metrics", case) if probe == "baseline" else None
        names = self._servers.items(probe, earlier)
        if not names:
            return
        folder = self._bundle.probe_folder(probe, names)
        self._turns.begin(folder, probe, names)
        await self._servers.put(probe, folder, lambda answer: self._turns.tell(probe, answer))
        self._turns.end(folder, probe)

    async def _put(self, probe: Probe, case: Case, hosts: tuple[str, ...], folder: ProbeFolder | None = None) -> None:
        folder = await self._turns.ask(probe, case, hosts, folder=folder)
        if probe.name == "stacks":
            await self._bring_py_spy(probe, case, hosts, folder)

    async def _bring_py_spy(self, probe: Probe, case: Case, hosts: tuple[str, ...], folder: ProbeFolder) -> None:
        """Ask those again that have no py-spy, with this machine's own sent along."""
        lacking = [host for host, _ in folder.evidence().all_parts("no-py-spy") if host in hosts]
        own = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
        if lacking and own:
            packed = b64encode(await asyncio.to_thread(Path(own).read_bytes)).decode()
            await self._turns.ask(probe, case, lacking, folder=folder, extra={"PY_SPY_BASE64": packed})

    async def _fetch_dumps(self, case: Case) -> None:
        """Fetch the dumps of every node that could list them; what kept one from that would keep it from this."""
        await self._wait_for_dumps(case)
        folder = self._bundle.probe_folder("flight_recorder", self._hosts)
        listing = await self.evidence("dumps", case)
        silent = {host: answer for host, answer in (listing.answers if listing else {}).items() if not answer.whole}
        for answer in silent.values():
            folder.record(msgspec.structs.replace(answer, file=None))
        hosts = [host for host in self._hosts if host not in silent]
        extra = {"REDUCER": reducer_source()} if listing and _too_large(listing) else None
        await self._turns.ask(PROBES["flight_recorder"], case, hosts, folder=folder, extra=extra)

    async def _wait_for_dumps(self, case: Case) -> None:
        """Dumps follow a time-out within 60 to 75 s: give those that are still to come their time."""
        until = min(time.monotonic() + case.run.thresholds.dump_wait_s, self._deadline - _FETCH_RESERVE_S)
        listed = case.view("dumps", dump_list)
        while listed is not None and (left := until - time.monotonic()) > 0:
            still = _expected(case) - len(listed.files) - len(listed.live)
            youngest = min((file.age_s for file in listed.files if file.age_s is not None), default=0.0)
            if still <= 0 or youngest > case.run.thresholds.dump_wait_s:
                return
            what = f"{len(listed.files)} dumps written, {still} to come"
            self._listen(Waiting(at=datetime.now(UTC), what=what, left_s=round(left, 1)))
            await asyncio.sleep(min(_POLL_S, left))
            folder = await self._turns.ask(PROBES["dumps"], case, self._hosts, keep_as="dumps_again")
            listed = dump_list(folder.evidence())


def _too_large(listing: Evidence) -> bool:
    """Whether the dumps are better cut down on the nodes before they cross the network."""
    return sum(file.size or 0 for file in dump_list(listing).files) > _WHOLE_UP_TO_BYTES


def _expected(case: Case) -> int:
    """How many dumps are to be expected: one of each process that runs."""
    table = case.view("processes", process_table)
    return sum(1 for process in table.by_rank().values() if not process.stopped) if table else 0
