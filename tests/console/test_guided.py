"""Guided walks: the operator's word counts, is kept, and stands when the console is opened again."""

import json
from collections.abc import Callable

from oncall.bundle.store import Bundle
from oncall.console.screens.dialogs import Ask, Choose
from oncall.playbook.journal import read_standing
from oncall.report.json_report import as_json
from oncall.report.triage import replay

from .conftest import ConsoleOf
from .waiting import press, until


async def test_each_confirmed_step_leads_to_the_answer_of_the_readings(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    bundle = incident("hang-by-code")
    by_itself = await replay(bundle, lambda _: None)
    console = console_of(bundle, guide=True)
    async with console.run_test(size=(120, 34)) as pilot:
        for step in by_itself.steps:
            await until(pilot, lambda step=step: console.snapshot.here == step.step and console.snapshot.proposal)
            proposal = console.snapshot.proposal
            assert proposal is not None
            assert (proposal.verdict, proposal.reason) == (step.verdict, step.reason)
            named = "rank 5, if you confirm" in console.screen.query_one("#suspects").text  # type: ignore[attr-defined]
            assert named == (step.step == "collective"), "rank 5 was sent into one more all_reduce"
            await press(pilot, "enter")
        await until(pilot, lambda: console.snapshot.report)
        report = console.snapshot.report
    assert report is not None
    assert report.verdict == by_itself.verdict


async def test_an_overruled_step_takes_the_operators_way_and_is_marked(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    bundle = incident("hang-by-code")
    console = console_of(bundle, guide=True)
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.proposal)
        await press(pilot, "o")
        await until(pilot, lambda: isinstance(console.screen, Choose))
        playbook = console.snapshot.playbook
        assert playbook is not None
        first = playbook.start
        verdicts = list(playbook.steps[first].branches)
        await press(pilot, *["down"] * verdicts.index("moving"), "enter")
        await until(pilot, lambda: isinstance(console.screen, Ask))
        await press(pilot, *"seen", "enter")
        leads_to = playbook.steps[first].branches["moving"]
        await until(pilot, lambda: console.snapshot.here == leads_to and console.snapshot.proposal)
        assert "yours: moving" in console.screen.query_one("#tree").text  # type: ignore[attr-defined]
    standing = read_standing(bundle)
    assert standing.overrulings[first].verdict == "moving"
    assert standing.overrulings[first].reason == "seen"
    told = json.loads(as_json(await replay(bundle, lambda _: None)))
    assert told["steps"][0]["overruled_because"] == "seen"
    assert told["steps"][1]["step"] == leads_to


async def test_the_console_opened_again_stands_where_it_was(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    bundle = incident("hang-by-code")
    console = console_of(bundle, guide=True)
    async with console.run_test(size=(120, 34)) as pilot:
        for _ in range(2):
            await until(pilot, lambda: console.snapshot.proposal)
            here = console.snapshot.here
            await press(pilot, "enter")
            await until(pilot, lambda here=here: console.snapshot.here != here)
        await until(pilot, lambda: console.snapshot.proposal)
        left_at = console.snapshot.here
    again = console_of(bundle)
    async with again.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: again.snapshot.proposal)
        account = again.snapshot.account
        assert again.snapshot.here == left_at
        assert again.snapshot.guided
        assert account is not None
        assert len(account.steps) == 2


async def test_a_step_taken_back_comes_next_again(incident: Callable[[str], Bundle], console_of: ConsoleOf) -> None:
    bundle = incident("hang-by-code")
    console = console_of(bundle, guide=True)
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.proposal)
        first = console.snapshot.here
        await press(pilot, "enter")
        await until(pilot, lambda: console.snapshot.here != first and console.snapshot.proposal)
        await press(pilot, "b")
        await until(pilot, lambda: console.snapshot.here == first and console.snapshot.proposal)
    assert read_standing(bundle).steps == ()


async def test_a_replay_that_nobody_steered_writes_nothing(
    incident: Callable[[str], Bundle], console_of: ConsoleOf
) -> None:
    bundle = incident("hang-by-code")
    before = {path: path.read_bytes() for path in bundle.path.rglob("*") if path.is_file()}
    console = console_of(bundle)
    async with console.run_test(size=(120, 34)) as pilot:
        await until(pilot, lambda: console.snapshot.report)
    assert {path: path.read_bytes() for path in bundle.path.rglob("*") if path.is_file()} == before
