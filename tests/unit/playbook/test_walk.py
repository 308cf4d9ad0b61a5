"""The walk: by the readings alone, taken back, overruled, and with a reading that fails."""

import asyncio
from pathlib import Path

import pytest

from oncall.playbook import engine
from oncall.playbook.engine import Overruling, Walker, walk
from oncall.playbook.events import Concluded, StepJudged, SteppedBack, StepStarted, WalkEvent
from oncall.playbook.loader import load
from oncall.playbook.sources import RecordedSource
from oncall.readings.finding import UNKNOWN
from oncall.readings.registry import Reading
from oncall.rehearse.incidents import incidents
from oncall.report.triage import case_of


@pytest.fixture
def heard() -> list[WalkEvent]:
    return []


@pytest.fixture
def walker(heard: list[WalkEvent]) -> Walker:
    bundle = incidents()["hang-by-code"].bundle
    return Walker(load("hang"), RecordedSource(bundle), case_of(bundle), heard.append)


def test_events_tell_each_step_and_the_conclusion(walker: Walker, heard: list[WalkEvent]) -> None:
    async def run() -> None:
        while walker.step is not None:
            walker.follow(await walker.judge())

    asyncio.run(run())
    started = [event.step for event in heard if isinstance(event, StepStarted)]
    judged = [event.step for event in heard if isinstance(event, StepJudged)]
    assert started == judged == [step.step for step in walker.steps]
    assert [type(event) for event in heard][-1] is Concluded
    assert walker.here in walker.playbook.conclusions


def test_a_step_back_forgets_what_it_found(walker: Walker, heard: list[WalkEvent]) -> None:
    async def run() -> None:
        walker.follow(await walker.judge())
        assert walker.case.findings
        walker.back()
        walker.back()

    asyncio.run(run())
    assert walker.here == walker.playbook.start
    assert walker.case.findings == ()
    assert [event for event in heard if isinstance(event, SteppedBack)] == [heard[-1]]


def test_an_overruled_step_follows_the_operator_and_keeps_the_reason(walker: Walker, heard: list[WalkEvent]) -> None:
    async def run() -> None:
        judgement = await walker.judge()
        assert judgement.verdict == "stopped"
        walker.follow(judgement, Overruling(verdict="moving", reason="I see it move"))

    asyncio.run(run())
    assert walker.here == walker.playbook.steps["progress"].branches["moving"]
    assert walker.steps[0].verdict == "moving"
    told = next(event for event in heard if isinstance(event, StepJudged))
    assert (told.verdict, told.overruled_because) == ("moving", "I see it move")


def test_a_verdict_without_a_branch_is_refused(walker: Walker) -> None:
    async def run() -> None:
        walker.follow(await walker.judge(), Overruling(verdict="nonsense", reason=""))

    with pytest.raises(KeyError):
        asyncio.run(run())


def test_a_reading_that_fails_does_not_know(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One defect in one reading must not cost the answer of the others."""

    def broken(_case: object) -> None:
        raise ZeroDivisionError("defect")

    spoiled = dict(engine.READINGS)
    good = spoiled["progress"]
    spoiled["progress"] = Reading(good.name, good.needs, good.verdicts, broken)
    monkeypatch.setattr(engine, "READINGS", spoiled)
    bundle = incidents()["hang-by-code"].bundle
    ended = asyncio.run(walk(load("hang"), RecordedSource(bundle), case_of(bundle), lambda _: None))
    assert ended.steps[0].verdict == UNKNOWN
    assert "`progress` failed" in ended.steps[0].judgement.reason
    assert caplog.records == [], "a traceback would stand in the answer's way"
    assert ended.conclusion_id == "another-branch"
