"""NCCL's RAS service: the probe against a service that speaks the protocol, and the reading of two looks."""

from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oncall.formats.nccl_ras import read_json, read_text
from oncall.readings.finding import Judgement
from oncall.readings.ras import ras
from oncall.readings.ras_counts import launched_between, standing
from oncall.run.model import Processes, Run

from ..readings.evidence import Part as Answer
from ..readings.evidence import Scene, processes
from .asking import ask, spoken, training
from .fake_ras import FakeRas, Look

EVEN = dict.fromkeys(range(8), 26)
BEHIND = {**EVEN, 5: 25}


def launched(count: int, **behind: int) -> dict[int, int]:
    """What each of eight ranks has launched: all the same but for some, such as r5=25."""
    return {**dict.fromkeys(range(8), count), **{int(name[1:]): n for name, n in behind.items()}}


LOOKS: dict[str, tuple[str, tuple[int, ...], dict[int, int], dict[int, int]]] = {
    "one stands, nothing moves": ("behind", (0,), launched(6650, r0=6649), launched(6650, r0=6649)),
    "one stands, the others go on": ("behind", (0,), launched(6650, r0=6649), launched(6700, r0=6649)),
    "one stands, another catches up": ("behind", (0,), launched(6650, r0=6649, r1=6649), launched(6650, r0=6649)),
    "each time others are behind": ("moving", (), launched(6650, r0=6649, r1=6649), launched(6900, r2=6899, r3=6899)),
    "the same are behind and go on": ("moving", (), launched(6650, r0=6649), launched(6700, r0=6699)),
    "those behind catch up": ("moving", (), launched(6650, r0=6649), launched(6650)),
    "one falls behind": ("moving", (), launched(6650), launched(6651, r0=6650)),
}


def asked(tmp_path: Path, service: FakeRas) -> Judgement:
    """Ask a running service as on node001, and judge what came back."""
    with service.running(), training(0, {"NCCL_RAS_ADDR": f"127.0.0.1:{service.port}"}) as (_, word):
        parts = ask("nccl_ras", Run(nodes="node[001-002]", processes=Processes(match=word)), WAIT_S="1.5")
    return _judged(tmp_path, spoken(parts))


def judge(tmp_path: Path, looks: list[Look], knows_json: bool) -> Judgement:
    """Judge two answers as the probe keeps them."""
    form = "json" if knows_json else "text"
    texts = [look.json() if knows_json else look.text() for look in looks]
    return _judged(tmp_path, [("status", {"sample": str(n), "form": form}, text) for n, text in enumerate(texts, 1)])


def _judged(tmp_path: Path, parts: list[Answer]) -> Judgement:
    scene = Scene(tmp_path)
    scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4, 8))})
    return ras(scene.say("nccl_ras", {"node001": parts, "node002": []}).case)


@pytest.mark.parametrize("knows_json", [True, False], ids=["2.28.7", "2.24"])
class TestTwoLooks:
    def test_a_rank_behind_at_both_looks_holds_up_the_others(self, knows_json: bool, tmp_path: Path) -> None:
        judged = judge(tmp_path, [Look(BEHIND), Look(BEHIND)], knows_json)
        assert judged.verdict == "behind"
        (finding,) = judged.findings
        assert (finding.kind, finding.ranks, finding.hosts) == ("stuck_before_collective", (5,), ("node002",))
        assert "it launched 25 AllReduces, the others 26" in finding.text

    def test_a_rank_that_never_launched_is_behind_too(self, knows_json: bool, tmp_path: Path) -> None:
        look = Look({**EVEN, 2: 0})
        assert judge(tmp_path, [look, look], knows_json).findings[0].ranks == (2,)

    def test_several_behind_are_all_named(self, knows_json: bool, tmp_path: Path) -> None:
        look = Look({**EVEN, 1: 25, 6: 25})
        assert [f.ranks for f in judge(tmp_path, [look, look], knows_json).findings] == [(1,), (6,)]

    def test_behind_at_one_look_alone_is_a_moment(self, knows_json: bool, tmp_path: Path) -> None:
        later = dict.fromkeys(range(8), 27)
        judged = judge(tmp_path, [Look(BEHIND), Look({**later, 2: 26})], knows_json)
        assert judged.verdict == "moving"
        assert not judged.findings

    def test_all_launched_and_none_finished_is_not_called_healthy(self, knows_json: bool, tmp_path: Path) -> None:
        judged = judge(tmp_path, [Look(EVEN), Look(EVEN)], knows_json)
        assert judged.verdict == "all-launched"
        assert ("tells no counts" in judged.reason) is not knows_json
        assert ("no count changed" in judged.reason) is knows_json

    @pytest.mark.parametrize("what", LOOKS)
    def test_both_forms_tell_a_rank_that_stands_from_a_job_that_moves(
        self, what: str, knows_json: bool, tmp_path: Path
    ) -> None:
        verdict, ranks, *counts = LOOKS[what]
        judged = judge(tmp_path, [Look(each) for each in counts], knows_json)
        assert judged.verdict == verdict
        assert tuple(rank for finding in judged.findings for rank in finding.ranks) == ranks

    def test_a_dead_and_a_silent_process_are_told_apart(self, knows_json: bool, tmp_path: Path) -> None:
        counts = {rank: 26 for rank in range(8) if rank not in {3, 6}}
        look = Look(counts, dead=[6], silent=[3])
        judged = judge(tmp_path, [look, look], knows_json)
        assert judged.verdict == "lost"
        assert {(f.kind, f.ranks) for f in judged.findings} == {("process_lost", (6,)), ("host_frozen", (3,))}

    def test_a_process_silent_once_is_not_lost(self, knows_json: bool, tmp_path: Path) -> None:
        slow = Look({rank: 26 for rank in range(8) if rank != 3}, silent=[3])
        assert judge(tmp_path, [slow, Look(EVEN)], knows_json).verdict == "all-launched"

    def test_an_error_that_stays_is_told(self, knows_json: bool, tmp_path: Path) -> None:
        look = Look(EVEN, failed=[4])
        judged = judge(tmp_path, [look, look], knows_json)
        assert (judged.verdict, judged.findings[0].ranks) == ("failed", (4,))
        assert "Remote process error" in judged.findings[0].text


def test_json_counts_that_move_are_a_job_that_runs(tmp_path: Path) -> None:
    judged = judge(tmp_path, [Look(EVEN), Look(launched(31))], knows_json=True)
    assert (judged.verdict, judged.reason) == ("moving", "at least 40 more operations were launched between two looks")


@st.composite
def two_looks(draw: st.DrawFn) -> tuple[Look, Look]:
    """Counts of eight ranks that never fall, most of them equal at each look, and not all at both."""
    usual = draw(st.integers(5, 50))
    first = {rank: usual - draw(st.sampled_from([0, 0, 0, 1, 2])) for rank in range(8)}
    went_on = draw(st.sampled_from([0, 0, 1, 40]))
    last = {rank: n + draw(st.sampled_from([0, went_on, usual - n + went_on])) for rank, n in first.items()}
    for counts in (first, last):
        values = list(counts.values())
        assume(max(map(values.count, values)) > 4)
    assume(len({*first.values()}) > 1 or len({*last.values()}) > 1)
    return Look(first), Look(last)


@settings(deadline=None, max_examples=300)
@given(two_looks())
def test_both_forms_tell_the_same_of_any_two_looks(looks: tuple[Look, Look]) -> None:
    """As long as less than half stands behind: of larger groups the text form names nobody."""
    json_form = [status for look in looks if (status := read_json(look.json().encode()))]
    text_form = [status for look in looks if (status := read_text(look.text()))]
    told = [sorted((s.process.rank, s.count) for s in standing(*form) if s.process) for form in (json_form, text_form)]
    assert told[0] == told[1]
    assert bool(launched_between(*json_form)) == bool(launched_between(*text_form))


def test_half_of_the_ranks_behind_are_told_though_the_text_form_names_none(tmp_path: Path) -> None:
    look = Look(launched(26, r0=25, r1=25, r2=25, r3=25))
    (tmp_path / "text").mkdir()
    named, counted = judge(tmp_path, [look, look], True), judge(tmp_path / "text", [look, look], False)
    assert [finding.ranks for finding in named.findings] == [(0,), (1,), (2,), (3,)]
    assert counted.verdict == "behind"
    (finding,) = counted.findings
    assert (finding.ranks, finding.text) == (
        (),
        "4 ranks that NCCL does not name launched 25 AllReduces, the others 26",
    )


def test_one_that_is_not_seen_again_has_not_caught_up(tmp_path: Path) -> None:
    """In the text form the others are even as soon as the one behind no longer answers."""
    counts = {rank: 26 for rank in range(8) if rank != 5}
    judged = judge(tmp_path, [Look(BEHIND), Look(counts, silent=[5])], knows_json=False)
    assert judged.verdict == "all-launched"


def test_the_service_is_asked_twice_as_documented(tmp_path: Path) -> None:
    service = FakeRas([Look(BEHIND)])
    assert asked(tmp_path, service).findings[0].ranks == (5,)
    assert service.asked == ["CLIENT PROTOCOL 2", "TIMEOUT 5", "SET FORMAT json", "VERBOSE STATUS"] * 2


def test_an_older_service_is_asked_for_text(tmp_path: Path) -> None:
    service = FakeRas([Look(BEHIND)], knows_json=False)
    assert asked(tmp_path, service).findings[0].ranks == (5,)
    assert service.asked.count("VERBOSE STATUS") == 2


class TestWithheld:
    def test_another_service_on_the_port(self, tmp_path: Path) -> None:
        judged = asked(tmp_path, FakeRas([Look(EVEN)], greets=False))
        assert judged.verdict == "unknown"
        assert "no RAS service" in judged.reason

    def test_a_service_that_never_answers(self, tmp_path: Path) -> None:
        judged = asked(tmp_path, FakeRas([Look(EVEN)], hangs=True))
        assert judged.verdict == "unknown"
        assert "timed out" in judged.reason

    def test_nobody_listens(self) -> None:
        with training(0, {"NCCL_RAS_ADDR": "127.0.0.1:9"}) as (_, word):
            parts = ask("nccl_ras", Run(nodes="node[001-002]", processes=Processes(match=word)))
        assert "refused" in parts["refused"][0].text

    def test_a_job_that_switched_it_off(self) -> None:
        with training(0, {"NCCL_RAS_ENABLE": "0"}) as (_, word):
            assert "disabled" in ask("nccl_ras", Run(nodes="node[001-002]", processes=Processes(match=word)))

    def test_only_the_first_nodes_are_asked(self) -> None:
        assert "not-asked" in ask("nccl_ras", Run(nodes="node[001-128]"), host="node004")

    def test_one_look_proves_nothing(self, tmp_path: Path) -> None:
        scene = Scene(tmp_path)
        look = ("status", {"sample": "1", "form": "json"}, Look(BEHIND).json())
        scene.say("nccl_ras", {"node001": [look], "node002": []})
        judged = ras(scene.case)
        assert judged.verdict == "unknown"
        assert "one look proves nothing" in judged.reason


def test_damaged_answers_are_no_answers() -> None:
    text, document = Look(BEHIND).text(), Look(BEHIND).json().encode()
    for end in range(0, len(text) // 2, 7):
        assert read_text(text[:end]) is None
    for end in range(0, len(document) - 3, 7):
        assert read_json(document[:end]) is None
    assert read_json(b'{"communicators": [{"hash": 1, "size": "x"}]}') is None
    assert read_json(b"[" * 100_000) is None
