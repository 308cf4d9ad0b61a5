"""Conducts one triage for the console: opens its source, walks, and carries out the operator's orders, on one loop."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from oncall.bundle.store import Bundle
from oncall.console.acting import run_command
from oncall.console.orders import (
    Act,
    AskAgain,
    Back,
    ChoosePlaybook,
    Confirm,
    FindEarlier,
    Guide,
    Note,
    Order,
    Overrule,
    RenewProbe,
    RenewStep,
    ShowRaw,
)
from oncall.console.publishing import PUBLISH_EVERY_S, Publisher
from oncall.console.raw import raw_text
from oncall.console.snapshot import Snapshot
from oncall.console.steering import SteeredWalk
from oncall.console.told import Listener, Word
from oncall.errors import OncallError
from oncall.playbook.engine import Overruling
from oncall.playbook.events import Acted, ActStarted, Noted, ProbeFinished, WalkEvent
from oncall.playbook.journal import read_journal, standing_of
from oncall.playbook.loader import known
from oncall.playbook.sources import LiveSource, RecordedSource
from oncall.readings.registry import READINGS
from oncall.report.choice import chosen_playbook
from oncall.report.earlier import earlier_bundle
from oncall.report.triage import case_of, live_source, replay
from oncall.run.nodes import expand_hosts

_WITHOUT_NODES = (Note, Act, ShowRaw, FindEarlier)


class Conductor:
    """One triage of one bundle, from its start or from where it stood, until `run` is cancelled.

    `tell` hears every snapshot and raw text; `give` takes orders. All of it happens on one loop.
    """

    def __init__(self, bundle: Bundle, snapshot: Snapshot, tell: Listener, *, deadline_s: float | None = None) -> None:
        self._bundle = bundle
        self._publisher = Publisher(bundle, snapshot, tell)
        self._case = case_of(bundle)
        self._limit_s = deadline_s or self._case.run.thresholds.triage_s
        self._orders: asyncio.Queue[Order] = asyncio.Queue()
        self._late: asyncio.TimerHandle | None = None
        self._asked_again: set[str] = set()
        self._asides: set[asyncio.Task[None]] = set()

    def give(self, order: Order) -> None:
        """Take an order; it is carried out after those before it."""
        self._orders.put_nowait(order)

    async def run(self) -> None:
        """Walk, and go on carrying out orders; ends only by cancellation."""
        async with self._opened() as source:
            self._source = source
            self._walk = SteeredWalk(source, self._case, self._publisher)
            await self._begin()
            try:
                while True:
                    await self._obey(await self._orders.get())
            finally:
                await self._leave_asides()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[LiveSource | RecordedSource]:
        if not self._publisher.snapshot.start.live:
            yield RecordedSource(self._bundle)
            return
        async with live_source(self._bundle, self._case, self._hear, self._limit_s) as source:
            source.start(self._case)
            yield source

    async def _begin(self) -> None:
        """Start the walk, or take it up where a recorded bundle's own left it."""
        first = self._publisher.snapshot
        journal = () if first.start.live else read_journal(self._bundle)
        standing = standing_of(journal)
        resumes = standing.guided and not standing.concluded
        self._walk.remember(standing)
        hosts = len(expand_hosts(self._case.run.nodes))
        self._publisher.recall(journal)
        seen = replace(self._publisher.snapshot, hosts=hosts, playbooks=tuple(known()))
        self._publisher.publish(replace(seen, guided=first.guided or resumes))
        playbook = standing.playbook or await chosen_playbook(self._bundle, self._source, self._case)
        self._walk.start(playbook, announce=first.guided and not resumes)
        if resumes:
            await self._walk.take_again(len(standing.steps))
        self._walk.go()

    def _hear(self, event: WalkEvent) -> None:
        """Take in what the source tells; after the conclusion a probe that ends calls for another walk."""
        self._publisher.hear(event)
        concluded = self._publisher.snapshot.report is not None
        if isinstance(event, ProbeFinished) and concluded and self._late is None:
            self._late = asyncio.get_running_loop().call_later(PUBLISH_EVERY_S, self._walk_late)

    def _walk_late(self) -> None:
        """What arrived after the conclusion counts, too: a bundle that is opened again would show it."""
        self._late = None
        snapshot = self._publisher.snapshot
        if snapshot.report is not None and not snapshot.guided and not self._asked_again:
            self._walk.again(snapshot.before)

    async def _obey(self, order: Order) -> None:
        if isinstance(self._source, LiveSource) and not isinstance(order, _WITHOUT_NODES):
            # The operator's thinking is no part of the time that the nodes have.
            self._source.extend(time.monotonic() + self._limit_s)
        match order:
            case Guide():
                self._walk.guide(on=order.on)
            case Confirm():
                self._walk.decide(None)
            case Overrule():
                self._walk.decide(Overruling(order.verdict, order.reason))
            case Back():
                self._walk.back()
            case ChoosePlaybook():
                self._choose(order.playbook)
            case RenewProbe():
                self._renew((order.probe,))
            case RenewStep() if (step := self._walk.step) is not None:
                self._renew(READINGS[step.reading].needs)
            case _:
                aside = asyncio.create_task(self._obey_aside(order), name=type(order).__name__)
                self._asides.add(aside)
                aside.add_done_callback(self._asides.discard)
                self._publisher.watch(aside, lambda why: self._publisher.mishap(f"what was asked for failed: {why}"))

    async def _leave_asides(self) -> None:
        """Before the nodes are let go, which may take longer than the process has."""
        for aside in self._asides:
            aside.cancel()
        await asyncio.gather(*self._asides, return_exceptions=True)

    async def _obey_aside(self, order: Order) -> None:
        """What the walk does not wait for."""
        match order:
            case AskAgain() if isinstance(self._source, LiveSource):
                await self._ask_again(order.host, self._source)
            case Note():
                self._publisher.keep(Noted(at=datetime.now(UTC), text=order.text))
            case Act():
                await self._act(order.command, order.host)
            case ShowRaw():
                self._publisher.tell(raw_text(self._case, order, self._bundle.path))
            case FindEarlier() if self._publisher.snapshot.before is None:
                await self._find_earlier()
            case _:
                pass

    async def _act(self, command: str, host: str) -> None:
        """Run a command, and keep that it runs and how it ends, or that it was left running."""
        acted = partial(Acted, command=command, host=host)
        self._publisher.keep(ActStarted(at=datetime.now(UTC), command=command, host=host))
        try:
            exit_code, output = await run_command(command)
        except asyncio.CancelledError:
            self._publisher.keep(acted(at=datetime.now(UTC), exit_code=None, output="", left=True))
            raise
        self._publisher.keep(acted(at=datetime.now(UTC), exit_code=exit_code, output=output))

    async def _ask_again(self, host: str, source: LiveSource) -> None:
        before = self._publisher.snapshot.report
        self._asked_again.add(host)
        try:
            await source.ask_again(host, self._case)
        finally:
            self._asked_again.discard(host)
        lacks = ", ".join(source.lacking(host))
        end = f"still lacks {lacks}" if lacks else "has answered all"
        self._publisher.tell(Word(f"{host} was asked again and {end}"))
        self._walk.again(before)

    async def _find_earlier(self) -> None:
        earlier = earlier_bundle(self._bundle)
        if earlier is not None:
            before = await replay(earlier, lambda _: None)
            self._publisher.publish(replace(self._publisher.snapshot, before=before))

    def _choose(self, playbook: str) -> None:
        """A site's own playbook may have mistakes: they are told, and the walk goes on as it was."""
        try:
            self._walk.choose(playbook)
        except OncallError as error:
            self._publisher.mishap(error.cause)

    def _renew(self, probes: tuple[str, ...]) -> None:
        """Put these probes anew, where there is anybody to put them to."""
        if not isinstance(self._source, LiveSource):
            return
        for probe in probes:
            self._source.renew(probe)
        self._source.start(self._case)
        self._walk.again(self._publisher.snapshot.report)
