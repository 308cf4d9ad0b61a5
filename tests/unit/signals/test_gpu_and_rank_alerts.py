"""Alerts about one GPU or one rank: each fires, keeps still, and turns at its edge."""

from collections.abc import Callable, Mapping

import pytest

RUN = {"run": "run42"}
GPU = {"Hostname": "node037", "gpu": "5"}
RANK = {"run": "run42", "rank": "293"}


def series(name: str, labels: Mapping[str, str]) -> str:
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def gpu(name: str, **labels: str) -> str:
    return series(f"DCGM_FI_DEV_{name}", {**GPU, **labels})


def rank(name: str, number: int = 293, **labels: str) -> str:
    return series(name, {"run": "run42", "rank": str(number), **labels})


def held(*parts: tuple[float | str, float]) -> str:
    """Values held for so many minutes each, one sample every 30 s; "_" is no sample."""
    return " ".join(f"{value}x{round(minutes * 2) - 1}" for value, minutes in parts)


@pytest.mark.parametrize(
    ("history", "minute", "expected"),
    [
        pytest.param({gpu("XID_ERRORS", err_code="0"): held((0, 20))}, 10, [], id="none"),
        pytest.param({gpu("XID_ERRORS", err_code="79"): held((79, 20))}, 0, [GPU], id="there at the first scrape"),
        pytest.param({gpu("XID_ERRORS", err_code="79"): held((79, 90))}, 80, [GPU], id="a second 79 changes nothing"),
        pytest.param(
            {
                gpu("XID_ERRORS", err_code="79"): held((79, 5)) + " stale",
                gpu("XID_ERRORS", err_code="31"): held(("_", 5.5), (31, 20)),
            },
            10,
            [GPU],
            id="another code is the same alert",
        ),
        pytest.param({gpu("XID_ERRORS"): held((79, 5), (0, 20))}, 10, [], id="driver loaded again"),
        pytest.param({gpu("XID_ERRORS"): held((79, 5), (0, 5), (79, 5))}, 11, [GPU], id="once more after that"),
        pytest.param(
            {series("DCGM_FI_DEV_XID_ERRORS", {"hostname": "node037", "gpu": "5"}): held((79, 5))},
            3,
            [{"hostname": "node037", "gpu": "5"}],
            id="label of dcgm-exporter since 2026",
        ),
    ],
)
def test_xid(
    check_firing: Callable[..., None], history: Mapping[str, str], minute: float, expected: list[Mapping[str, str]]
) -> None:
    check_firing("GpuXidError", history, minute, expected)


@pytest.mark.parametrize(
    ("alert", "history", "minute", "fires"),
    [
        pytest.param("GpuEccDbe", {gpu("ECC_DBE_VOL_TOTAL"): held((0, 20))}, 10, False, id="no double-bit error"),
        pytest.param(
            "GpuEccDbe", {gpu("ECC_DBE_VOL_TOTAL"): held((1, 90))}, 80, True, id="one before the first scrape"
        ),
        pytest.param("GpuEccDbe", {gpu("ECC_DBE_VOL_TOTAL"): held((0, 5), (1, 9))}, 5, True, id="one, at once"),
        pytest.param("GpuRowRemapPending", {gpu("ROW_REMAP_PENDING"): held((0, 20))}, 10, False, id="no remap"),
        pytest.param(
            "GpuRowRemapPending", {gpu("ROW_REMAP_PENDING"): held((0, 5), (1, 9))}, 5, True, id="remap pending"
        ),
        pytest.param("GpuRowRemapPending", {gpu("ROW_REMAP_FAILURE"): held((1, 20))}, 10, True, id="remap failed"),
        pytest.param(
            "GpuRowRemapPending",
            {gpu("ROW_REMAP_PENDING"): held((1, 20)), gpu("ROW_REMAP_FAILURE"): held((1, 20))},
            10,
            True,
            id="pending and failed are one alert",
        ),
        pytest.param(
            "GpuClockLow",
            {gpu("SM_CLOCK"): held((1500, 20)), gpu("POWER_USAGE"): held((600, 20))},
            15,
            False,
            id="1500 MHz exactly",
        ),
        pytest.param(
            "GpuClockLow",
            {gpu("SM_CLOCK"): held((1499, 20)), gpu("POWER_USAGE"): held((301, 20))},
            15,
            True,
            id="under 1500 MHz and over 300 W",
        ),
        pytest.param(
            "GpuClockLow",
            {gpu("SM_CLOCK"): held((345, 20)), gpu("POWER_USAGE"): held((300, 20))},
            15,
            False,
            id="300 W exactly: idle",
        ),
        pytest.param(
            "GpuClockLow",
            {gpu("SM_CLOCK"): held((1980, 10), (1300, 20)), gpu("POWER_USAGE"): held((600, 30))},
            14.5,
            False,
            id="low for under 5 minutes",
        ),
        pytest.param(
            "GpuClockLow",
            {gpu("SM_CLOCK"): held((1980, 10), (1300, 20)), gpu("POWER_USAGE"): held((600, 30))},
            15,
            True,
            id="low for 5 minutes",
        ),
        pytest.param("NvlinkErrors", {gpu("NVLINK_REPLAY_ERROR_COUNT_TOTAL"): held((900, 90))}, 80, False, id="still"),
        *(
            pytest.param(
                "NvlinkErrors", {gpu(f"NVLINK_{kind}_ERROR_COUNT_TOTAL"): held((7, 10), (8, 9))}, 12, True, id=kind
            )
            for kind in ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
        ),
        pytest.param(
            "NvlinkErrors",
            {gpu("NVLINK_REPLAY_ERROR_COUNT_TOTAL"): held((7, 10), (8, 90))},
            71,
            False,
            id="an hour later",
        ),
    ],
)
def test_gpu(
    check_firing: Callable[..., None], alert: str, history: Mapping[str, str], minute: float, fires: bool
) -> None:
    check_firing(alert, history, minute, [GPU] if fires else [])


@pytest.mark.parametrize(("growth", "fires"), [(0, False), (95, False), (105, True)])
def test_corrected_ecc_errors_of_a_day(check_firing: Callable[..., None], growth: int, fires: bool) -> None:
    history = {gpu("ECC_SBE_VOL_TOTAL"): f"5000x200 {5000 + growth}x200"}
    check_firing("GpuEccSbeGrowing", history, 24 * 60, [GPU] if fires else [], interval=240)


@pytest.mark.parametrize(
    ("values", "minute", "fires"),
    [
        pytest.param(held((12, 30)), 25, False, id="1.2 times exactly"),
        pytest.param(held((12.5, 30)), 9.5, False, id="over it for under 10 minutes"),
        pytest.param(held((12.5, 30)), 10, True, id="over it for 10 minutes"),
        pytest.param(held((12.5, 8), (10, 1), (12.5, 8)), 16, False, id="over it now and then"),
    ],
)
def test_rank_outlier_against_the_median_of_all_nodes(
    check_firing: Callable[..., None], values: str, minute: float, fires: bool
) -> None:
    """Each node has median series of its own; the rule needs one for the run or it is many-to-many."""
    medians = {
        rank("train_step_time_s_p50", number, instance=f"node{number // 8:03}:9410"): held((10, 30))
        for number in range(288, 304)
    }
    straggler = {"instance": "node036:9410"}
    history = {**medians, rank("train_step_time_s", **straggler): values, rank("train_step_time_s", 7): held((10, 30))}
    check_firing("RankStepTimeOutlier", history, minute, [{**RANK, **straggler}] if fires else [])


SPLIT, RETRIES = rank("train_mem_inactive_split"), rank("train_num_alloc_retries")


@pytest.mark.parametrize(
    ("history", "fires"),
    [
        pytest.param({SPLIT: "0+1000000x100", RETRIES: held((0, 20), (1, 30))}, True, id="grows, and retries"),
        pytest.param({SPLIT: "0+1000000x100", RETRIES: held((3, 50))}, False, id="grows, no new retry"),
        pytest.param({SPLIT: held((8e9, 50)), RETRIES: held((0, 20), (1, 30))}, False, id="level, and retries"),
        pytest.param({SPLIT: "100000000-1000000x100", RETRIES: held((0, 20), (1, 30))}, False, id="shrinks"),
        pytest.param({SPLIT: "0+1000000x100"}, False, id="retries not told"),
    ],
)
def test_fragmentation(check_firing: Callable[..., None], history: Mapping[str, str], fires: bool) -> None:
    check_firing("MemoryFragmentation", history, 40, [RANK] if fires else [])


@pytest.mark.parametrize(
    ("waits", "minute", "fires"),
    [
        pytest.param((0.5, 0.5), 30, False, id="5 % exactly"),
        pytest.param((0.6, 0.6), 14.5, False, id="6 % for under 15 minutes"),
        pytest.param((0.6, 0.6), 15, True, id="6 % for 15 minutes"),
        pytest.param((0.9, 0.0), 30, False, id="one rank waits, the run does not"),
        pytest.param((0.6, "NaN"), 30, True, id="one rank tells NaN"),
    ],
)
def test_data_loading_wait(
    check_firing: Callable[..., None], waits: tuple[float | str, float | str], minute: float, fires: bool
) -> None:
    history = {rank("train_step_time_s", number): held((10, 40)) for number in (0, 1)}
    for number, wait in enumerate(waits):
        history[rank("train_data_wait_s", number)] = f"{wait} " * 80
    check_firing("DataLoadingWait", history, minute, [RUN] if fires else [])


@pytest.mark.parametrize(("minute", "fires"), [(10, False), (11, False), (11.5, True)])
def test_exporter_stuck(check_firing: Callable[..., None], minute: float, fires: bool) -> None:
    labels = {"run": "run42", "instance": "node001:9410"}
    history = {series("oncall_exporter_last_look_timestamp_seconds", labels): "0+30x20 600x30"}
    check_firing("OncallExporterStuck", history, minute, [labels] if fires else [])
