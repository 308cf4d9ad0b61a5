"""The readings of the slowdown tree: each verdict from what it means, and `unknown` where a signal is withheld."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncall.flight_recorder.model import Grade
from oncall.readings.baseline import baseline_end, good_stretch
from oncall.readings.data_share import data_share
from oncall.readings.few_or_all import few_or_all
from oncall.readings.finding import Finding, Role
from oncall.readings.fragmentation import fragmentation
from oncall.readings.host_memory import host_memory
from oncall.readings.links import links
from oncall.readings.log_volume import log_volume
from oncall.readings.measured import measure
from oncall.readings.slowness import slowness
from oncall.readings.throttling import reason_words, throttling

from .evidence import NOW
from .series import SeriesCase, by_gpu, by_rank

EIGHT = range(8)
LINKS = ("nvlink_crc_flit", "nvlink_crc_data", "nvlink_replay", "nvlink_recovery", "pcie_replay")
PORTS = ("ib_link_downed", "ib_link_recovery", "ib_receive_errors", "ib_transmit_discards")


@pytest.fixture
def series(tmp_path: Path) -> SeriesCase:
    return SeriesCase(tmp_path)


def accuse(series: SeriesCase, *ranks: int) -> None:
    """As if the step before had found these ranks to keep the others waiting."""
    series.case.findings = (Finding(kind="straggler", text="it is slow", role=Role.ORIGIN, ranks=ranks),)


class TestJoin:
    @pytest.mark.parametrize(
        "labels",
        [
            {"rank": "5"},
            {"exported_rank": "5", "job": "train"},
            {"Hostname": "node002", "gpu": "1"},
            {"hostname": "NODE002", "gpu": "1"},
            {"instance": "node002:9400", "gpu": "1"},
            {"instance": "10.0.0.3:9400", "node": "node002.cluster.example.com", "gpu": "1"},
            {"exported_pod": "node002", "pod": "dcgm-x7k2p", "gpu": "1"},
        ],
        ids=",".join,
    )
    def test_every_way_to_name_a_gpu_leads_to_its_rank(self, labels: dict[str, str], series: SeriesCase) -> None:
        case = series.tell({"sm_clock": [(labels, 1305.0)]})
        assert measure(case, "sm_clock").now == {5: 1305.0}

    def test_an_address_of_the_run_file_is_its_host(self, tmp_path: Path) -> None:
        series = SeriesCase(tmp_path, '[reach.addresses]\nnode002 = "10.0.0.3"\n')
        case = series.tell({"host_memory_total": [({"instance": "10.0.0.3:9100"}, 7.0)]})
        assert measure(case, "host_memory_total", by_host=True).now == {"node002": 7.0}

    def test_the_labels_that_tell_can_be_chosen(self, tmp_path: Path) -> None:
        series = SeriesCase(tmp_path, '[prometheus.join]\nhost = ["machine"]\ngpu = ["card"]\n')
        case = series.tell({"sm_clock": [({"machine": "node002", "card": "1", "Hostname": "node001"}, 1305.0)]})
        assert measure(case, "sm_clock").now == {5: 1305.0}

    def test_other_runs_and_hosts_are_left_out_and_their_labels_shown(self, series: SeriesCase) -> None:
        case = series.tell({"sm_clock": [({"Hostname": "other9", "gpu": "1"}, 1305.0)]})
        measured = measure(case, "sm_clock")
        assert not measured.now
        assert 'labels seen: Hostname="other9", gpu="1"' in (measured.lacks((5,)) or "")

    def test_an_old_sample_is_stale_and_no_value(self, series: SeriesCase) -> None:
        case = series.tell({"sm_clock": by_gpu([1980.0] * 8)}, age_s=250.0)
        measured = measure(case, "sm_clock")
        assert not measured.now
        assert measured.lacks(EIGHT) == "sm_clock: stale for ranks 0-7, newest sample 250 s old"

    def test_a_series_that_ended_a_moment_ago_has_no_value_now(self, series: SeriesCase) -> None:
        """Prometheus marks it stale when its exporter goes: it has points in the stretch, but no newest sample."""
        case = series.tell({"sm_clock": by_gpu([1980.0] * 8)}, living=range(7))
        assert measure(case, "sm_clock").lacks(EIGHT) == "sm_clock: stale for ranks 7, its series ended"

    def test_a_rank_that_was_there_before_is_not_forgotten(self, series: SeriesCase) -> None:
        case = series.tell({"sm_clock": by_gpu([1980.0] * 7)}, {"sm_clock": by_gpu([1980.0] * 8)})
        assert measure(case, "sm_clock").lacks(EIGHT) == "sm_clock: stale for ranks 7, its series ended"


class TestBaseline:
    def test_the_last_stretch_before_a_jump(self) -> None:
        points = [(float(at), 12.0 if at < 3000 else 40.0) for at in range(0, 6000, 60)]
        assert good_stretch(points, 6000.0, 120.0) == 2940.0

    def test_a_ramp_is_held_against_its_foot(self) -> None:
        """4.75 s that grows by a fifth over the look-back, with a noise of a percent."""
        points = [
            (float(at), 4.75 * (1 + at / 500_000) * (1 + 0.01 * (at % 7 - 3) / 3)) for at in range(0, 100_000, 300)
        ]
        end = good_stretch(points, 100_000.0, 120.0)
        assert end is not None
        assert end < 40_000

    def test_a_short_lucky_moment_is_no_standard(self) -> None:
        points = [(float(at), 3.0 if at in (600, 660) else 12.0) for at in range(0, 6000, 60)]
        assert good_stretch(points, 6000.0, 120.0) == 5880.0

    def test_a_recorded_stretch_goes_before_any_that_is_found(self, tmp_path: Path) -> None:
        series = SeriesCase(tmp_path, "baseline = 2026-03-01T10:00:00Z\n")
        evidence = series.tell({"step_time_s": by_rank([40.0] * 8)}).evidence("metrics")
        assert evidence is not None
        assert baseline_end(evidence, series.case.run, NOW, 120.0) == datetime(2026, 3, 1, 10, tzinfo=UTC)

    def test_two_points_are_no_history(self) -> None:
        assert good_stretch([(0.0, 12.0), (60.0, 12.0)], 600.0, 120.0) is None


class TestSlowness:
    def test_slower_needs_a_tenth(self, series: SeriesCase) -> None:
        case = series.tell({"step_time_s": by_rank([13.3] * 8)}, {"step_time_s": by_rank([12.0] * 8)})
        assert slowness(case).verdict == "slower"

    def test_less_is_steady(self, series: SeriesCase) -> None:
        case = series.tell({"step_time_s": by_rank([13.0] * 8)}, {"step_time_s": by_rank([12.0] * 8)})
        assert slowness(case).verdict == "steady"

    def test_steady_speaks_for_all_ranks_or_not_at_all(self, series: SeriesCase) -> None:
        case = series.tell({"step_time_s": by_rank([12.0] * 7)}, {"step_time_s": by_rank([12.0] * 7)})
        judged = slowness(case)
        assert (judged.verdict, judged.reason) == ("unknown", "step_time_s: no series for ranks 7")

    def test_without_before_nothing_is_known(self, series: SeriesCase) -> None:
        judged = slowness(series.tell({"step_time_s": by_rank([40.0] * 8)}))
        assert judged.verdict == "unknown"
        assert "no earlier stable stretch" in judged.reason

    def test_steps_that_took_no_time_are_nothing_to_compare_with(self, series: SeriesCase) -> None:
        case = series.tell({"step_time_s": by_rank([40.0] * 8)}, {"step_time_s": by_rank([0.0] * 8)})
        assert slowness(case).verdict == "unknown"

    def test_a_job_without_steps_is_not_slow_but_stopped(self, series: SeriesCase) -> None:
        last = series.case.now.timestamp() - 300
        now = {"last_step_completed_timestamp_seconds": by_rank([last] * 8), "step_time_s": by_rank([12.0] * 8)}
        assert slowness(series.tell(now)).verdict == "stalled"


class TestFewOrAll:
    def test_the_rank_that_waits_least_is_the_one(self, series: SeriesCase) -> None:
        waits = [29.5] * 8
        waits[5] = 0.4
        case = series.tell({"step_time_s": by_rank([40.0] * 8), "comm_wait_s": by_rank(waits)})
        judged = few_or_all(case)
        assert judged.verdict == "few"
        assert [finding.ranks for finding in judged.findings if finding.role is Role.ORIGIN] == [(5,)]

    @pytest.mark.parametrize("span", ["fwd_bwd", "optim"])
    def test_a_longer_phase_of_its_own_tells_too(self, span: str, series: SeriesCase) -> None:
        times = [10.0] * 8
        times[2] = 38.0
        now = {"step_time_s": by_rank([40.0] * 8), "span_seconds": by_rank(times, name=span)}
        judged = few_or_all(series.tell(now))
        assert [finding.ranks for finding in judged.findings if finding.role is Role.ORIGIN] == [(2,)]

    def test_stages_that_always_differed_are_not_accused(self, series: SeriesCase) -> None:
        """The first pipeline stage has always computed longer; now all are slower by the same."""
        before = {"step_time_s": by_rank([12.0] * 8), "span_seconds": by_rank([9.0, 9.0] + [6.0] * 6, name="fwd_bwd")}
        now = {
            "step_time_s": by_rank([40.0] * 8),
            "span_seconds": by_rank([9.1, 9.1] + [6.1] * 6, name="fwd_bwd"),
            "comm_wait_s": by_rank([29.5] * 8),
        }
        assert few_or_all(series.tell(now, before)).verdict == "all"

    def test_an_outlier_that_explains_little_of_the_slowdown_is_none(self, series: SeriesCase) -> None:
        waits = [29.5] * 8
        waits[5] = 24.0
        before = {"step_time_s": by_rank([12.0] * 8), "comm_wait_s": by_rank([1.5] * 8)}
        now = {"step_time_s": by_rank([40.0] * 8), "comm_wait_s": by_rank(waits)}
        assert few_or_all(series.tell(now, before)).verdict == "all"

    def test_equal_step_times_alone_tell_nothing(self, series: SeriesCase) -> None:
        judged = few_or_all(series.tell({"step_time_s": by_rank([40.0] * 8)}))
        assert judged.verdict == "unknown"
        assert "waits least" in judged.reason

    def test_a_rank_without_series_may_be_the_one(self, series: SeriesCase) -> None:
        now = {"step_time_s": by_rank([40.0] * 8), "comm_wait_s": by_rank([29.5] * 7)}
        judged = few_or_all(series.tell(now))
        assert judged.verdict == "unknown"
        assert "ranks 7" in judged.reason


class TestThrottling:
    def test_low_clock_and_reasons_are_named_one_by_one(self, series: SeriesCase) -> None:
        accuse(series, 5)
        clocks, bits = [1980.0] * 8, [0.0] * 8
        clocks[5], bits[5] = 1305.0, float(0x008 | 0x040 | 0x080)
        judged = throttling(series.tell({"sm_clock": by_gpu(clocks), "clocks_event_reasons": by_gpu(bits)}))
        assert judged.verdict == "suspect"
        assert "hw slowdown, hw thermal slowdown, hw power brake slowdown" in judged.reason
        assert judged.findings[0].ranks == (5,)

    def test_a_power_cap_at_full_clock_is_everyday(self, series: SeriesCase) -> None:
        now = {"sm_clock": by_gpu([1980.0] * 8), "clocks_event_reasons": by_gpu([4.0] * 8)}
        assert throttling(series.tell(now)).verdict == "clear"

    def test_an_idle_gpu_may_clock_down(self, series: SeriesCase) -> None:
        clocks, bits = [1980.0] * 8, [0.0] * 8
        clocks[5], bits[5] = 345.0, 1.0
        judged = throttling(series.tell({"sm_clock": by_gpu(clocks), "clocks_event_reasons": by_gpu(bits)}))
        assert judged.verdict == "clear"

    def test_all_gpus_lowered_at_once_are_held_against_before(self, series: SeriesCase) -> None:
        now, before = {"sm_clock": by_gpu([1305.0] * 8)}, {"sm_clock": by_gpu([1980.0] * 8)}
        judged = throttling(series.tell(now, before))
        assert [finding.ranks[0] for finding in judged.findings] == list(EIGHT)
        assert judged.findings[0].grade is Grade.LIKELY

    def test_the_suspect_without_a_clock_is_not_cleared_by_the_others(self, series: SeriesCase) -> None:
        accuse(series, 7)
        assert throttling(series.tell({"sm_clock": by_gpu([1980.0] * 7)})).verdict == "unknown"

    def test_unnamed_bits_are_shown_as_they_are(self) -> None:
        assert reason_words(0x1020) == "sw thermal slowdown, bits 0x1000"


def sound_links() -> dict[str, list[tuple[dict[str, str], float]]]:
    """Every counter of every GPU and port, none of which grows."""
    hosts = [{"instance": f"node{number:03}:9100", "device": "mlx5_0"} for number in (1, 2)]
    ports = {name: [(labels, 0.0) for labels in hosts] for name in PORTS}
    states = {"ib_state": [(labels, 4.0) for labels in hosts], "ib_rate": [(labels, 5e10) for labels in hosts]}
    return {name: by_gpu([0.0] * 8) for name in LINKS} | ports | states


class TestLinks:
    def test_all_counted_and_none_grows(self, series: SeriesCase) -> None:
        assert links(series.tell(sound_links())).verdict == "clear"

    @pytest.mark.parametrize("signal", [*LINKS, *PORTS, "ib_state", "ib_rate"])
    def test_any_counter_that_lacks_leaves_it_open(self, signal: str, series: SeriesCase) -> None:
        judged = links(series.tell({name: rows for name, rows in sound_links().items() if name != signal}))
        assert (judged.verdict, signal in judged.reason) == ("unknown", True)

    def test_one_that_the_site_declares_not_to_have_is_not_waited_for(self, tmp_path: Path) -> None:
        series = SeriesCase(tmp_path, '[signals]\nib_rate = ""\n')
        assert links(series.tell({n: r for n, r in sound_links().items() if n != "ib_rate"})).verdict == "clear"

    def test_several_ports_are_added_up_and_named_by_host(self, series: SeriesCase) -> None:
        accuse(series, 5)
        two = [({"instance": "node002:9100", "device": f"mlx5_{port}"}, 3.0) for port in (0, 1)]
        judged = links(series.tell(sound_links() | {"ib_receive_errors": two}))
        assert judged.verdict == "suspect"
        assert "6 InfiniBand packets received with an error" in judged.reason
        assert (judged.findings[0].ranks, judged.findings[0].hosts) == ((5,), ("node002",))

    def test_errors_that_were_always_there_are_not_news(self, series: SeriesCase) -> None:
        now = sound_links() | {"pcie_replay": by_gpu([20.0] * 8)}
        assert links(series.tell(now, sound_links() | {"pcie_replay": by_gpu([18.0] * 8)})).verdict == "clear"

    def test_a_port_that_came_up_slower_is_a_fault(self, series: SeriesCase) -> None:
        rates = [({"instance": "node001:9100"}, 5.0e10), ({"instance": "node002:9100"}, 1.25e10)]
        before = sound_links()
        judged = links(series.tell(sound_links() | {"ib_rate": rates}, before))
        assert "100 Gbit/s, usual are 400" in judged.reason


class TestShares:
    def test_data_counts_from_a_twentieth_that_grew(self, series: SeriesCase) -> None:
        before = {"step_time_s": by_rank([12.0] * 8), "data_wait_s": by_rank([0.05] * 8)}
        now = {"step_time_s": by_rank([13.0] * 8), "data_wait_s": by_rank([1.0] * 8)}
        judged = data_share(series.tell(now, before))
        assert judged.verdict == "suspect"
        assert "7.7% of a step is spent waiting for data, it was 0.4%" in judged.reason

    def test_a_share_that_was_always_large_is_not_the_change(self, series: SeriesCase) -> None:
        before = {"step_time_s": by_rank([12.0] * 8), "data_wait_s": by_rank([1.2] * 8)}
        now = {"step_time_s": by_rank([40.0] * 8), "data_wait_s": by_rank([4.0] * 8)}
        assert data_share(series.tell(now, before)).verdict == "clear"

    def test_the_span_of_the_loader_stands_in(self, series: SeriesCase) -> None:
        now = {"step_time_s": by_rank([40.0] * 8), "span_seconds": by_rank([28.0] * 8, name="fetching_batch")}
        assert data_share(series.tell(now)).verdict == "suspect"

    def test_retries_of_long_ago_are_not_the_cause(self, series: SeriesCase) -> None:
        told = {"num_alloc_retries": by_rank([40.0] * 8), "mem_inactive_split": by_rank([2e9] * 8)}
        assert fragmentation(series.tell(told, told)).verdict == "clear"

    def test_a_counter_that_began_anew_counts_from_zero(self, series: SeriesCase) -> None:
        before = {"num_alloc_retries": by_rank([40.0] * 8), "mem_inactive_split": by_rank([2e9] * 8)}
        now = {"num_alloc_retries": by_rank([7.0] * 8), "mem_inactive_split": by_rank([9e9] * 8)}
        judged = fragmentation(series.tell(now, before))
        assert judged.verdict == "suspect"
        assert "up to 7 more times" in judged.reason

    def test_split_memory_alone_slows_nothing(self, series: SeriesCase) -> None:
        before = {"num_alloc_retries": by_rank([0.0] * 8), "mem_inactive_split": by_rank([2e9] * 8)}
        now = {"num_alloc_retries": by_rank([0.0] * 8), "mem_inactive_split": by_rank([9e9] * 8)}
        assert fragmentation(series.tell(now, before)).verdict == "clear"

    def test_logs_by_the_clock_are_not_the_cause_of_longer_steps(self, series: SeriesCase) -> None:
        """1,000 bytes a second before and now; a step takes 3.3 times as long, and so holds as much more."""
        before = {"step_time_s": by_rank([12.0] * 8), "log_bytes_total": by_rank([600_000.0] * 8)}
        now = {"step_time_s": by_rank([40.0] * 8), "log_bytes_total": by_rank([600_000.0] * 8)}
        checkpoints = {"ckpt_duration_s": by_rank([30.0] * 8)}
        judged = log_volume(series.tell(now | checkpoints, before | checkpoints))
        assert judged.verdict == "clear"
        assert "40 kB logged each step, before 12 kB" in judged.reason

    def test_one_rank_that_floods_its_log_is_named(self, series: SeriesCase) -> None:
        sizes = [6_000.0] * 8
        sizes[3] = 6_000_000.0
        before = {"step_time_s": by_rank([12.0] * 8), "log_bytes_total": by_rank([6_000.0] * 8)}
        now = {"step_time_s": by_rank([13.5] * 8), "log_bytes_total": by_rank(sizes)}
        judged = log_volume(series.tell(now, before))
        assert (judged.verdict, judged.findings[0].ranks) == ("suspect", (3,))

    def test_a_host_with_its_memory_used_up_is_named(self, series: SeriesCase) -> None:
        free = [({"instance": "node001:9100"}, 1.5e12), ({"instance": "node002:9100"}, 4.0e10)]
        whole = [(labels, 2.0e12) for labels, _ in free]
        judged = host_memory(series.tell({"host_memory_available": free, "host_memory_total": whole}))
        assert (judged.verdict, judged.findings[0].hosts) == ("suspect", ("node002",))
        assert judged.findings[0].ranks == (4, 5, 6, 7)
