"""A bundle's journal read back: where the last walk stood, whatever ended it."""

from collections.abc import Callable
from datetime import UTC, datetime

from oncall.bundle.store import Bundle
from oncall.playbook.events import Concluded, Noted, StepJudged, SteppedBack, WalkStarted
from oncall.playbook.journal import read_journal, standing_of
from oncall.report.triage import replay

AT = datetime(2026, 11, 29, 15, 0, tzinfo=UTC)


def judged(step: str, verdict: str = "steady", because: str | None = None) -> StepJudged:
    return StepJudged(
        at=AT, step=step, verdict=verdict, reason="r", findings=(), leads_to="x", overruled_because=because
    )


def test_only_steps_not_taken_back_stand() -> None:
    standing = standing_of(
        [
            WalkStarted(at=AT, playbook="hang", guided=True),
            judged("a"),
            judged("b", "gone", "I looked"),
            SteppedBack(at=AT, step="b"),
            judged("c", "moving", "it runs"),
        ]
    )
    assert standing.steps == ("a", "c")
    assert {step: each.reason for step, each in standing.overrulings.items()} == {"c": "it runs"}
    assert standing.guided
    assert not standing.concluded


def test_a_new_walk_forgets_the_one_before() -> None:
    first = WalkStarted(at=AT, playbook="hang", guided=True)
    again = WalkStarted(at=AT, playbook="slowdown", guided=False)
    standing = standing_of([first, judged("a", "gone", "w"), Concluded(at=AT, conclusion="x"), again])
    assert (standing.playbook, standing.steps, dict(standing.overrulings)) == ("slowdown", (), {})


def test_a_journal_cut_by_a_crash_is_read_up_to_the_cut(incident: Callable[[str], Bundle]) -> None:
    bundle = incident("hang-by-code")
    whole = read_journal(bundle)
    text = bundle.read_text("events.jsonl")
    assert text is not None
    bundle.write("events.jsonl", text.encode()[:-25])
    assert read_journal(bundle) == whole[:-1]


def test_line_ends_within_words_of_a_node_end_no_event(incident: Callable[[str], Bundle]) -> None:
    bundle = incident("hang-by-code")
    before = read_journal(bundle)
    noted = Noted(at=AT, text="a\u2028b\x85c\x1cd\r\ne")
    bundle.append_event(noted)
    assert read_journal(bundle) == (*before, noted)


async def test_an_overruling_that_the_playbook_does_not_know_is_passed_over(incident: Callable[[str], Bundle]) -> None:
    bundle = incident("hang-by-code")
    before = await replay(bundle, lambda _: None)
    bundle.append_event(WalkStarted(at=AT, playbook="hang", guided=True))
    bundle.append_event(judged(before.steps[0].step, "no-such-verdict", "hand-written"))
    assert (await replay(bundle, lambda _: None)).verdict == before.verdict
