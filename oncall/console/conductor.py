"""Walks one triage for the console: publishes snapshots and carries out the operator's orders, on a loop of its own."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

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
    RenewProbes,
    ShowRaw,
)
from oncall.console.progress import take_in, take_in_all
from oncall.console.raw import raw_text
from oncall.console.raw_text import RawText
from oncall.console.snapshot import Snapshot
from oncall.playbook.engine import Overruling, Walker
from oncall.playbook.events import Acted, Noted, ProbeFinished, WalkEvent, WalkStarted
from oncall.playbook.journal import read_journal, standing_of
from oncall.playbook.loader import load, shipped
from oncall.playbook.model import Playbook
from oncall.playbook.sources import LiveSource, RecordedSource
from oncall.probes.catalogue import PROBES, SERVERS
from oncall.readings.registry import READINGS
from oncall.report.account import by_hand
from oncall.report.build import build_draft, build_report
from oncall.report.choice import chosen_playbook
from oncall.report.earlier import earlier_bundle
from oncall.report.model import Report
from oncall.report.triage import case_of, live_source, replay
from oncall.run.nodes import expand_hosts

Listener = Callable[[Snapshot | RawText], None]

_PUBLISH_EVERY_S = 0.15
_WITHOUT_NODES = (Note, Act, ShowRaw, FindEarlier)


class Conductor:
    """One triage of one bundle, from its start or from where it stood, until `run` is cancelled.

    `tell` hears every snapshot and raw text; `give` takes orders. All of it happens on one loop.
    """

    def __init__(self, bundle: Bundle, snapshot: Snapshot, tell: Listener, *, deadline_s: float | None = None) -> None:
        self._bundle = bundle
        self._tell = tell
        self._snapshot = snapshot
        self._case = case_of(bundle)
        self._limit_s = deadline_s or self._case.run.thresholds.triage_s
        self._orders: asyncio.Queue[Order] = asyncio.Queue()
        self._overrulings: dict[str, Overruling] = {}
        self._keeps = snapshot.start.live
        self._due: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._asked_again: set[str] = set()
        self._going: asyncio.Task[None] | None = None
        self._asides: set[asyncio.Task[None]] = set()
        self._began = time.monotonic()

    def give(self, order: Order) -> None:
        """Take an order; it is carried out after those before it."""
        self._orders.put_nowait(order)

    async def run(self) -> None:
        """Walk, and go on carrying out orders; ends only by cancellation."""
        async with self._opened() as source:
            self._source = source
            await self._begin()
            while True:
                await self._obey(await self._orders.get())

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[LiveSource | RecordedSource]:
        if not self._snapshot.start.live:
            yield RecordedSource(self._bundle)
            return
        async with live_source(self._bundle, self._case, self._hear, self._limit_s) as source:
            source.start(self._case)
            yield source

    async def _begin(self) -> None:
        """Start the walk, or take it up where a recorded bundle's own left it."""
        journal = () if self._snapshot.start.live else read_journal(self._bundle)
        standing = standing_of(journal)
        self._overrulings = dict(standing.overrulings)
        resumes = standing.guided and not standing.concluded
        hosts = len(expand_hosts(self._case.run.nodes))
        seen = replace(take_in_all(self._snapshot, journal), hosts=hosts, playbooks=tuple(sorted(shipped())))
        self._publish(replace(seen, guided=seen.guided or resumes))
        playbook = standing.playbook or await chosen_playbook(self._bundle, self._source, self._case)
        self._start(playbook, announce=seen.guided and not resumes)
        if resumes:
            await self._take_again(len(standing.steps))
            self._keeps = True
        self._go()

    def _start(self, playbook: str, *, announce: bool) -> None:
        if announce:
            self._keeps = True
            self._hear(WalkStarted(at=datetime.now(UTC), playbook=playbook, guided=self._snapshot.guided))
        loaded = load(playbook)
        self._case.findings = ()
        self._walker = Walker(loaded, self._source, self._case, self._hear)
        self._publish(
            replace(self._snapshot, playbook=self._filled(loaded), report=None, proposal=None, here=loaded.start)
        )
        self._draft()

    def _filled(self, playbook: Playbook) -> Playbook:
        """The playbook with the run's name and paths in the commands of its steps."""
        steps = {
            name: msgspec.structs.replace(step, by_hand=by_hand(self._case, step.by_hand))
            for name, step in playbook.steps.items()
        }
        return msgspec.structs.replace(playbook, steps=steps)

    async def _take_again(self, steps: int) -> None:
        """Take the steps that the journal holds once more, without telling it again."""
        keeps, self._keeps = self._keeps, False
        for _ in range(steps):
            if self._walker.step is not None:
                self._walker.follow(await self._walker.judge(), self._overruling())
        self._keeps = keeps
        self._draft()

    def _overruling(self) -> Overruling | None:
        step, overruling = self._walker.step, self._overrulings.get(self._walker.here)
        return overruling if overruling and step and overruling.verdict in step.branches else None

    def _go(self) -> None:
        """Walk on from here, in place of any walking that is under way."""
        if self._going is not None:
            self._going.cancel()
        self._going = asyncio.create_task(self._walk_on(), name="walk")
        self._going.add_done_callback(self._walked)

    async def _walk_on(self) -> None:
        while self._walker.step is not None:
            judgement = await self._walker.judge()
            if self._snapshot.guided:
                self._publish(replace(self._snapshot, proposal=judgement))
                return
            self._walker.follow(judgement, self._overruling())
            self._draft()
            # What was read stays until the end. Looking through it for garbage stops the screen, too, for a quarter
            # of a second at 8,192 ranks.
            gc.freeze()
        walk = await self._walker.ended()
        report = build_report(walk, bundle=str(self._bundle.path), took_s=time.monotonic() - self._began)
        self._publish(replace(self._snapshot, report=report, here=None, proposal=None, waiting=None))

    def _walked(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()):
            self._publish(replace(self._snapshot, problem=f"the walk ended early: {type(error).__name__}: {error}"))

    async def _obey(self, order: Order) -> None:
        if isinstance(self._source, LiveSource) and not isinstance(order, _WITHOUT_NODES):
            # The operator's thinking is no part of the time that the nodes have.
            self._source.extend(time.monotonic() + self._limit_s)
        match order:
            case Guide():
                self._guide(on=order.on)
            case Confirm():
                self._decide(None)
            case Overrule():
                self._decide(Overruling(order.verdict, order.reason))
            case Back():
                self._back()
            case ChoosePlaybook():
                self._overrulings = {}
                self._start(order.playbook, announce=True)
                self._go()
            case RenewProbes():
                self._renew(order.probes)
            case _:
                aside = asyncio.create_task(self._obey_aside(order), name=type(order).__name__)
                self._asides.add(aside)
                aside.add_done_callback(self._asides.discard)

    async def _obey_aside(self, order: Order) -> None:
        """What the walk does not wait for."""
        match order:
            case AskAgain() if isinstance(self._source, LiveSource):
                before = self._snapshot.report
                self._asked_again.add(order.host)
                try:
                    await self._source.ask_again(order.host, self._case)
                finally:
                    self._asked_again.discard(order.host)
                self._walk_again(before)
            case Note():
                self._hear(Noted(at=datetime.now(UTC), text=order.text), keep=True)
            case Act():
                exit_code, output = await run_command(order.command)
                at = datetime.now(UTC)
                acted = Acted(at=at, command=order.command, host=order.host, exit_code=exit_code, output=output)
                self._hear(acted, keep=True)
            case ShowRaw():
                self._tell(raw_text(self._case, order))
            case FindEarlier() if self._snapshot.before is None:
                earlier = earlier_bundle(self._bundle)
                if earlier is not None:
                    before = await replay(earlier, lambda _: None)
                    self._publish(replace(self._snapshot, before=before))
            case _:
                pass

    def _guide(self, *, on: bool) -> None:
        self._publish(replace(self._snapshot, guided=on))
        if on:
            self._start(self._walker.playbook.playbook, announce=True)
        self._go()

    def _decide(self, overruling: Overruling | None) -> None:
        judgement, step = self._snapshot.proposal, self._walker.here
        if judgement is None:
            return
        self._publish(replace(self._snapshot, proposal=None))
        if overruling is None:
            self._overrulings.pop(step, None)
        else:
            self._overrulings[step] = overruling
        self._walker.follow(judgement, overruling)
        self._draft()
        self._go()

    def _back(self) -> None:
        if self._walker.steps:
            self._keeps = True
            self._walker.back()
            self._publish(replace(self._snapshot, guided=True, report=None, proposal=None))
            self._draft()
            self._go()

    def _renew(self, probes: tuple[str, ...]) -> None:
        if not isinstance(self._source, LiveSource):
            return
        step = self._walker.step
        needed = READINGS[step.reading].needs if self._snapshot.guided and step else (*PROBES, *SERVERS)
        for probe in probes or needed:
            self._source.renew(probe)
        self._source.start(self._case)
        self._walk_again(self._snapshot.report)

    def _walk_again(self, before: Report | None) -> None:
        """On new evidence: in guided mode only the step at hand, else from the start, to be laid beside `before`."""
        if not self._snapshot.guided:
            self._publish(replace(self._snapshot, before=before or self._snapshot.before))
            self._start(self._walker.playbook.playbook, announce=False)
        self._go()

    def _walk_on_late(self) -> None:
        """What arrived after the conclusion counts, too: a bundle that is opened again would show it."""
        self._late = None
        if self._snapshot.report is not None and not self._snapshot.guided and not self._asked_again:
            self._start(self._walker.playbook.playbook, announce=False)
            self._go()

    def _draft(self) -> None:
        account = build_draft(self._walker, bundle=str(self._bundle.path))
        self._publish(replace(self._snapshot, account=account))

    def _hear(self, event: WalkEvent, *, keep: bool = False) -> None:
        """Keep an event and take it in; a walk that is only replayed is neither kept nor in the journal."""
        taken = take_in(self._snapshot, event)
        if not (self._keeps or keep):
            self._publish(replace(taken, journal=self._snapshot.journal))
            return
        self._publish(taken)
        if isinstance(event, ProbeFinished) and self._snapshot.report is not None and self._late is None:
            self._late = asyncio.get_running_loop().call_later(_PUBLISH_EVERY_S, self._walk_on_late)
        try:
            self._bundle.append_event(event)
        except OSError as error:
            self._publish(replace(taken, problem=f"the bundle cannot be written: {error}"))

    def _publish(self, snapshot: Snapshot) -> None:
        """Tell of the newest snapshot soon; many changes within a moment are told once."""
        self._snapshot = snapshot
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_PUBLISH_EVERY_S, self._flush)

    def _flush(self) -> None:
        self._due = None
        self._tell(self._snapshot)
