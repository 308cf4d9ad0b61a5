"""Events of a walk, taken in one by one."""

from datetime import UTC, datetime

from oncall.bundle.evidence import Outcome
from oncall.console.progress import take_in, take_in_all
from oncall.console.snapshot import Snapshot, Start, probe_of
from oncall.playbook.events import (
    Concluded,
    NodeAnswered,
    Noted,
    ProbeFinished,
    ProbeStarted,
    StepJudged,
    StepStarted,
    WalkEvent,
)

AT = datetime(2026, 11, 29, 15, 0, tzinfo=UTC)
FIRST = Snapshot(Start(run="run42", started=AT, bundle="b", live=True, read_only=False))


def answered(host: str, outcome: Outcome = Outcome.OK, reason: str | None = None, took_s: float = 0.5) -> WalkEvent:
    return NodeAnswered(at=AT, probe="stacks", host=host, outcome=outcome, reason=reason, took_s=took_s)


def test_a_probe_counts_those_that_answered_and_names_those_that_did_not() -> None:
    events = [
        ProbeStarted(at=AT, probe="stacks", asked=("n1", "n2", "n3")),
        answered("n1", took_s=1.25),
        answered("n2", Outcome.TIMED_OUT, "no answer in 25 s"),
        answered("n3", Outcome.UNREACHABLE),
        ProbeFinished(at=AT, probe="stacks", answered=1, asked=3),
    ]
    probe = probe_of(take_in_all(FIRST, events), "stacks")
    assert probe is not None
    assert (probe.asked, probe.answered, probe.finished, probe.took_s) == (3, 1, True, 1.25)
    assert probe.missing == {"n2": "no answer in 25 s", "n3": "unreachable"}


def test_a_node_that_answers_the_second_time_is_missing_no_more() -> None:
    events = [
        ProbeStarted(at=AT, probe="stacks", asked=("n1", "n2")),
        answered("n1"),
        answered("n2", Outcome.DENIED),
        ProbeStarted(at=AT, probe="stacks", asked=("n2",)),
        answered("n2"),
    ]
    probe = probe_of(take_in_all(FIRST, events), "stacks")
    assert probe is not None
    assert (probe.asked, probe.answered, dict(probe.missing)) == (2, 2, {})


def test_the_walk_is_where_its_last_step_began() -> None:
    walking = take_in(FIRST, StepStarted(at=AT, step="alive", ask="Is every rank there?"))
    assert walking.here == "alive"
    assert take_in(walking, Concluded(at=AT, conclusion="healthy")).here is None


def test_the_journal_tells_the_operators_words_and_overrulings() -> None:
    overruled = StepJudged(
        at=AT,
        step="alive",
        verdict="gone",
        reason="all 8 run",
        findings=(),
        leads_to="x",
        overruled_because="I see none",
    )
    journal = take_in_all(FIRST, [Noted(at=AT, text="paged the network team"), overruled]).journal
    assert [line.who for line in journal] == ["operator", "operator"]
    assert journal[0].text == "paged the network team"
    assert all(word in journal[1].text for word in ("overruled to gone", "I see none", "all 8 run"))
