"""The panels say what the readings say: a value is accused where the verdict names it, and nowhere else."""

from pathlib import Path

import pytest

from oncall.readings.case import Case
from oncall.report.metric_panels import metric_panels
from oncall.report.panels import Panel

from ..readings.series import SeriesCase, by_gpu, by_rank

MIXED = [1980.0, 1980.0, 1980.0, 1980.0, 1410.0, 1410.0, 1410.0, 1410.0]
"""Clocks in MHz of two nodes with GPUs of two models."""


def panel_of(case: Case, question: str) -> Panel:
    return next(panel for panel in metric_panels(case) if panel.question == question)


def accused(panel: Panel) -> list[int | None]:
    return [row.rank for row in panel.rows if row.accused]


def test_each_clock_is_held_against_what_it_was_itself(tmp_path: Path) -> None:
    """The fast GPU is held down to more than what the slow ones have by their make."""
    now = [*MIXED[:2], 1600.0, *MIXED[3:]]
    panel = panel_of(SeriesCase(tmp_path).tell({"sm_clock": by_gpu(now)}, {"sm_clock": by_gpu(MIXED)}), "Throttled?")
    assert panel.verdict == "suspect"
    assert accused(panel) == [2]
    assert panel.rows[0].rank == 2
    assert panel.rows[0].limit == pytest.approx(0.9 * 1980.0)
    assert [row.limit for row in panel.rows if row.rank in range(4, 8)] == [pytest.approx(0.9 * 1410.0)] * 4


def test_what_the_verdict_clears_is_not_accused(tmp_path: Path) -> None:
    """Half of the GPUs are slower than the median of all, as they were before."""
    panel = panel_of(SeriesCase(tmp_path).tell({"sm_clock": by_gpu(MIXED)}, {"sm_clock": by_gpu(MIXED)}), "Throttled?")
    assert (panel.verdict, accused(panel)) == ("clear", [])


def test_a_verdict_on_everyone_accuses_everyone(tmp_path: Path) -> None:
    now = {"data_wait_s": by_rank([2.0] * 8), "step_time_s": by_rank([6.0] * 8)}
    before = {"data_wait_s": by_rank([0.1] * 8), "step_time_s": by_rank([4.0] * 8)}
    panel = panel_of(SeriesCase(tmp_path).tell(now, before), "Data?")
    assert (panel.verdict, accused(panel)) == ("suspect", list(range(8)))


def test_a_host_is_held_against_its_own_memory(tmp_path: Path) -> None:
    """Of two hosts with the same memory left, the small one has enough."""
    hosts = ("node001", "node002")
    now = {
        "host_memory_available": [({"instance": host}, 40e9) for host in hosts],
        "host_memory_total": [({"instance": host}, size) for host, size in zip(hosts, (100e9, 2000e9), strict=True)],
    }
    panel = panel_of(SeriesCase(tmp_path).tell(now), "Host memory?")
    assert [(row.who, row.accused) for row in panel.rows] == [("node002", True), ("node001", False)]


def test_where_a_port_errs_its_counter_is_shown_and_none_of_a_gpu_that_counts_as_ever(tmp_path: Path) -> None:
    ports = [({"instance": "node001"}, 0.0), ({"instance": "node002"}, 40.0)]
    now = {"nvlink_replay": by_gpu([500.0] * 8), "ib_link_recovery": ports}
    before = {"nvlink_replay": by_gpu([500.0] * 8), "ib_link_recovery": [(labels, 0.0) for labels, _ in ports]}
    panel = panel_of(SeriesCase(tmp_path).tell(now, before), "Links?")
    assert (panel.verdict, panel.rows[0].who, panel.rows[0].value) == ("suspect", "node002", 40.0)
    assert [row.who for row in panel.rows if row.accused] == ["node002"]


def test_where_a_span_alone_tells_of_the_wait_for_data_it_is_shown(tmp_path: Path) -> None:
    waits = {"name": "fetching_batch"}
    now = {"span_seconds": by_rank([2.0] * 8, **waits), "step_time_s": by_rank([6.0] * 8)}
    before = {"span_seconds": by_rank([0.1] * 8, **waits), "step_time_s": by_rank([4.0] * 8)}
    panel = panel_of(SeriesCase(tmp_path).tell(now, before), "Data?")
    assert (panel.verdict, accused(panel), panel.rows[0].value) == ("suspect", list(range(8)), 2.0)
