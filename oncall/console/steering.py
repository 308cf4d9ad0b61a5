"""A walk that an operator steers: it goes by itself or step by step, can be overruled, taken back and begun anew."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from oncall.console.publishing import Publisher
from oncall.playbook.engine import Overruling, Source, Walker
from oncall.playbook.events import WalkStarted
from oncall.playbook.journal import Standing
from oncall.playbook.loader import load
from oncall.playbook.model import Playbook, Step
from oncall.readings.case import Case
from oncall.report.account import by_hand
from oncall.report.build import build_draft, build_report
from oncall.report.model import Report


class SteeredWalk:
    """The walk of one triage. `start` chooses the playbook; `go` walks until there is a conclusion or a question."""

    def __init__(self, source: Source, case: Case, publisher: Publisher) -> None:
        self._source = source
        self._case = case
        self._publisher = publisher
        self._overrulings: dict[str, Overruling] = {}
        self._going: asyncio.Task[None] | None = None
        self._began = time.monotonic()
        self._walker: Walker
        self._chosen: str

    @property
    def step(self) -> Step | None:
        """The step that comes next; None when the walk has ended."""
        return self._walker.step

    def start(self, playbook: str, *, announce: bool) -> None:
        """Stand at the start of a playbook, by name or path; `announce` where it was the operator who chose it.

        Raises UsageError and ConfigError as `load` does; then the walk stands where it stood.
        """
        loaded = load(playbook)
        publisher = self._publisher
        self._chosen = playbook
        if announce:
            publisher.keeps = True
            publisher.hear(WalkStarted(at=datetime.now(UTC), playbook=playbook, guided=publisher.snapshot.guided))
        self._case.findings = ()
        self._walker = Walker(loaded, self._source, self._case, publisher.hear)
        filled = _filled(self._case, loaded)
        fresh = replace(publisher.snapshot, report=None, proposal=None, problem=None, mishap=None)
        publisher.publish(replace(fresh, playbook=filled, here=loaded.start))
        self._draft()

    def remember(self, standing: Standing) -> None:
        """Let the operator's verdicts of an earlier walk stand."""
        self._overrulings = dict(standing.overrulings)

    async def take_again(self, steps: int) -> None:
        """Take as many steps as the journal holds once more, without telling it again; what follows is told."""
        self._publisher.keeps = False
        for _ in range(steps):
            if self._walker.step is not None:
                self._walker.follow(await self._walker.judge(), self._overruling())
        self._publisher.keeps = True
        self._draft()

    def go(self) -> None:
        """Walk on from here, in place of any walking that is under way."""
        if self._going is not None:
            self._going.cancel()
        self._going = asyncio.create_task(self._walk_on(), name="walk")
        self._publisher.watch(self._going, lambda why: self._publisher.fail(f"the walk ended early: {why}"))

    def choose(self, playbook: str) -> None:
        """Walk another playbook, without the verdicts that the operator gave in this one."""
        self.start(playbook, announce=True)
        self._overrulings = {}
        self.go()

    def guide(self, *, on: bool) -> None:
        """Begin anew with each verdict waiting for the operator's word, or go on without."""
        self._publisher.publish(replace(self._publisher.snapshot, guided=on))
        if on:
            self.start(self._chosen, announce=True)
        self.go()

    def decide(self, overruling: Overruling | None) -> None:
        """Follow the proposed verdict, or the operator's own; nothing happens where none is proposed."""
        judgement, step = self._publisher.snapshot.proposal, self._walker.here
        if judgement is None:
            return
        self._publisher.publish(replace(self._publisher.snapshot, proposal=None))
        if overruling is None:
            self._overrulings.pop(step, None)
        else:
            self._overrulings[step] = overruling
        self._walker.follow(judgement, overruling)
        self._draft()
        self.go()

    def back(self) -> None:
        """Take the last step back, and walk on step by step."""
        if self._walker.steps:
            self._publisher.keeps = True
            self._walker.back()
            self._publisher.publish(replace(self._publisher.snapshot, guided=True, report=None, proposal=None))
            self._draft()
            self.go()

    def again(self, before: Report | None) -> None:
        """On new evidence: in guided mode only the step at hand, else from the start, to be laid beside `before`."""
        snapshot = self._publisher.snapshot
        if not snapshot.guided:
            self._publisher.publish(replace(snapshot, before=before or snapshot.before))
            self.start(self._chosen, announce=False)
        self.go()

    def _overruling(self) -> Overruling | None:
        step, overruling = self._walker.step, self._overrulings.get(self._walker.here)
        return overruling if overruling and step and overruling.verdict in step.branches else None

    async def _walk_on(self) -> None:
        publisher = self._publisher
        while self._walker.step is not None:
            judgement = await self._walker.judge()
            if publisher.snapshot.guided:
                publisher.publish(replace(publisher.snapshot, proposal=judgement))
                return
            self._walker.follow(judgement, self._overruling())
            self._draft()
        walk = await self._walker.ended()
        took_s = time.monotonic() - self._began
        report = build_report(walk, bundle=publisher.snapshot.start.bundle, took_s=took_s)
        publisher.publish(replace(publisher.snapshot, report=report, here=None, proposal=None, waiting=None))

    def _draft(self) -> None:
        snapshot = self._publisher.snapshot
        self._publisher.publish(replace(snapshot, account=build_draft(self._walker, bundle=snapshot.start.bundle)))


def _filled(case: Case, playbook: Playbook) -> Playbook:
    """The playbook with the run's name and paths in the commands of its steps."""
    steps = {
        name: msgspec.structs.replace(step, by_hand=by_hand(case, step.by_hand))
        for name, step in playbook.steps.items()
    }
    return msgspec.structs.replace(playbook, steps=steps)
