"""Series that tell the impossible, or contradict each other or the rank map, count neither for nor against anybody."""

import math
from pathlib import Path

import pytest

from oncall.readings.case import Case
from oncall.readings.few_or_all import few_or_all
from oncall.readings.finding import Finding, Judgement, Role
from oncall.readings.host_memory import host_memory
from oncall.readings.links import links
from oncall.readings.measured import measure
from oncall.readings.slowness import slowness
from oncall.readings.throttling import throttling

from .evidence import NOW, Scene
from .series import Rows, SeriesCase, by_gpu, by_rank

CLOCKS = [1980.0] * 8
WAITS = [4.0] * 8
TIMES = [12.0] * 8


@pytest.fixture
def series(tmp_path: Path) -> SeriesCase:
    return SeriesCase(tmp_path)


def with_odd(values: list[float], odd: float, rank: int = 5) -> list[float]:
    return [odd if index == rank else value for index, value in enumerate(values)]


def accused(judged: Judgement) -> set[int]:
    return {rank for finding in judged.findings if finding.role is Role.ORIGIN for rank in finding.ranks}


def told_of(case: Case, rank: int) -> str:
    return " ".join(f.text for f in slowness(case).findings if f.role is Role.CONTEXT and rank in f.ranks)


class TestImpossible:
    @pytest.mark.parametrize("odd", [0.0, -5.0, 1e6, 1e12, math.nan, math.inf, -math.inf, 2147483632.0])
    def test_a_clock_that_no_gpu_has_accuses_and_clears_nobody(self, odd: float, series: SeriesCase) -> None:
        case = series.tell({"sm_clock": by_gpu(with_odd(CLOCKS, odd))}, {"sm_clock": by_gpu(CLOCKS)})
        judged = throttling(case)
        assert (judged.verdict, accused(judged)) == ("unknown", set())
        assert "set aside for ranks 5" in judged.reason
        assert "sm_clock of rank 5" in told_of(case, 5)

    @pytest.mark.parametrize("odd", [-1.0, 1e12, math.nan])
    def test_a_wait_that_cannot_be_makes_nobody_wait_least(self, odd: float, series: SeriesCase) -> None:
        now = {"step_time_s": by_rank(TIMES), "comm_wait_s": by_rank(with_odd(WAITS, odd))}
        judged = few_or_all(series.tell(now, {"comm_wait_s": by_rank(WAITS)}))
        assert (judged.verdict, accused(judged)) == ("unknown", set())

    @pytest.mark.parametrize("odd", [60.0, 1e6])
    def test_a_part_longer_than_the_step_holds_up_nobody(self, odd: float, series: SeriesCase) -> None:
        """If rank 5 waited a minute for data in every step, no step would take 12 s."""
        loads = by_rank(with_odd([0.1] * 8, odd))
        now = {"step_time_s": by_rank(TIMES), "comm_wait_s": by_rank(WAITS), "data_wait_s": loads}
        assert accused(few_or_all(series.tell(now, {"comm_wait_s": by_rank(WAITS)}))) == set()

    def test_the_others_are_judged_as_ever(self, series: SeriesCase) -> None:
        now = with_odd(with_odd(CLOCKS, 0.0, rank=2), 1305.0, rank=5)
        assert accused(throttling(series.tell({"sm_clock": by_gpu(now)}, {"sm_clock": by_gpu(CLOCKS)}))) == {5}

    def test_a_temperature_that_cannot_be_is_not_told_with_a_finding(self, series: SeriesCase) -> None:
        heat = by_gpu(with_odd([60.0] * 8, 1e12))
        now = {"sm_clock": by_gpu(with_odd(CLOCKS, 1305.0)), "gpu_temp": heat}
        case = series.tell(now, {"sm_clock": by_gpu(CLOCKS)})
        (finding,) = throttling(case).findings
        assert (finding.ranks, "°C" in finding.text) == ((5,), False)
        assert "gpu_temp of rank 5 (node002 gpu1) does not count: 1e+12 celsius cannot be" in told_of(case, 5)

    def test_what_cannot_have_been_before_is_no_standard(self, series: SeriesCase) -> None:
        case = series.tell({"sm_clock": by_gpu(CLOCKS)}, {"sm_clock": by_gpu(with_odd(CLOCKS, 9e5))})
        assert throttling(case).verdict == "clear"

    def test_memory_below_nothing_is_no_shortage(self, series: SeriesCase) -> None:
        hosts = ({"Hostname": "node001"}, {"Hostname": "node002"})
        now = {
            "host_memory_available": [(hosts[0], 5e11), (hosts[1], -1.0)],
            "host_memory_total": [(host, 1e12) for host in hosts],
        }
        assert host_memory(series.tell(now)).verdict == "unknown"

    def test_a_step_that_ends_in_an_hour_hides_no_stall(self, series: SeriesCase) -> None:
        """One exporter's clock is wrong: the others' last step ended 600 s ago."""
        ended = with_odd([NOW.timestamp() - 600.0] * 8, NOW.timestamp() + 3600.0)
        now = {"last_step_completed_timestamp_seconds": by_rank(ended), "step_time_s_p50": by_rank(TIMES)}
        assert slowness(series.tell(now)).verdict == "stalled"


class TestContradicted:
    def twice(self, rows: Rows, rank: int, value: float) -> Rows:
        """A second exporter tells another value of one GPU."""
        return [*rows, ({**rows[rank][0], "job": "another"}, value)]

    def test_two_series_of_one_gpu_that_disagree_count_for_neither(self, series: SeriesCase) -> None:
        now = self.twice(by_gpu(with_odd(CLOCKS, 1305.0)), 5, 1980.0)
        case = series.tell({"sm_clock": now}, {"sm_clock": by_gpu(CLOCKS)})
        assert throttling(case).verdict == "unknown"
        assert "its series disagree, 1305 MHz and 1980 MHz" in throttling(case).reason

    def test_two_scrapes_of_one_value_agree(self, series: SeriesCase) -> None:
        now = self.twice(by_gpu(with_odd(CLOCKS, 1305.0)), 5, 1320.0)
        case = series.tell({"sm_clock": now}, {"sm_clock": by_gpu(CLOCKS)})
        assert accused(throttling(case)) == {5}

    def test_several_links_of_one_gpu_are_no_contradiction(self, series: SeriesCase) -> None:
        errors = self.twice(by_gpu([0.0] * 8), 5, 400.0)
        series.case.findings = (Finding(kind="straggler", text="slow", role=Role.ORIGIN, ranks=(5,)),)
        case = series.tell({"nvlink_replay": errors}, {"nvlink_replay": by_gpu([0.0] * 8)})
        assert accused(links(case)) == {5}

    def test_a_rank_on_a_host_where_it_does_not_run(self, series: SeriesCase) -> None:
        waits = [
            ({"rank": str(rank), "node": "node001" if rank == 5 else f"node{rank // 4 + 1:03}"}, value)
            for rank, value in enumerate(with_odd(WAITS, 0.01))
        ]
        case = series.tell({"step_time_s": by_rank(TIMES), "comm_wait_s": waits})
        judged = few_or_all(case)
        assert (judged.verdict, accused(judged)) == ("unknown", set())
        assert "its labels name node001, where that rank does not run" in judged.reason

    @pytest.mark.parametrize("label", ["node", "instance"])
    def test_one_exporter_may_tell_of_all_ranks(self, label: str, series: SeriesCase) -> None:
        waits = by_rank(with_odd(WAITS, 0.01), **{label: "node001"})
        case = series.tell({"step_time_s": by_rank(TIMES), "comm_wait_s": waits})
        assert accused(few_or_all(case)) == {5}

    def test_a_gpu_beyond_those_of_its_node(self, series: SeriesCase, tmp_path: Path) -> None:
        rows = [*by_gpu(CLOCKS), ({"Hostname": "node002", "gpu": "12"}, 300.0)]
        case = series.tell({"sm_clock": rows}, {"sm_clock": by_gpu(CLOCKS)})
        assert throttling(case).verdict == "clear"
        assert measure(case, "sm_clock").now == dict(enumerate(CLOCKS))
        scene = Scene(tmp_path / "nodes")
        four = "".join(f"{index}, GPU-{index}, 00000000:{index + 1}A:00.0\n" for index in range(4))
        scene.say("gpus", {host: [("gpus", {"form": "nvidia-smi"}, four)] for host in ("node001", "node002")})
        gpus = scene.case.evidence("gpus")
        assert gpus is not None
        case.add(gpus)
        told = [finding.text for finding in slowness(case).findings]
        assert told == ["sm_clock of GPU 12 on node002 does not count: that node has 4 GPUs"]
