"""Alerts about a run as a whole: each fires, keeps still, and turns at its edge."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest

Check: TypeAlias = Callable[..., None]
History: TypeAlias = Mapping[str, str]

RUN = {"run": "run42"}
DAY = 24 * 60


def run(name: str, **labels: str) -> str:
    """A series of run42."""
    return name + "{" + ",".join(f'{key}="{value}"' for key, value in {"run": "run42", **labels}.items()) + "}"


def held(*parts: tuple[float | str, float]) -> str:
    """Values held for so many minutes each, one sample every 30 s; "_" is no sample."""
    return " ".join(f"{value}x{round(minutes * 2) - 1}" for value, minutes in parts)


def stepping(until: float, then_silent: float = 90) -> str:
    """Time stamps of the last step: a step every 30 s until a minute, then none."""
    return f"0+30x{round(until * 2)} {60 * until}x{round(then_silent * 2)}"


LAST = "train_last_step_completed_timestamp_seconds"
P50 = "train_step_time_s_p50"
ATTEMPT = "train_attempt_start_timestamp_seconds"
RESTARTS = "train_restart_total"
FAILED = "train_ckpt_failed_total"
SAVES = "train_ckpt_shorter_of_two_s"


@pytest.mark.parametrize(
    ("history", "minute", "fires"),
    [
        pytest.param({run(LAST): stepping(30), run(P50): held((12, 60))}, 20, False, id="steps go on"),
        pytest.param({run(LAST): stepping(10), run(P50): held((40, 60))}, 12, False, id="3 x p50 exactly"),
        pytest.param({run(LAST): stepping(10), run(P50): held((39.9, 60))}, 12, True, id="past 3 x p50"),
        pytest.param({run(LAST): stepping(10), run(P50): held((1, 60))}, 11.5, False, id="short steps, 90 s"),
        pytest.param({run(LAST): stepping(10), run(P50): held((1, 60))}, 12, True, id="short steps, past 90 s"),
        pytest.param(
            {
                run(LAST, rank="0", instance="node001"): stepping(10),
                run(LAST, rank="8", instance="node002"): stepping(9),
                run(P50, rank="0", instance="node001"): held((12, 60)),
                run(P50, rank="8", instance="node002"): held((13, 60)),
            },
            15,
            True,
            id="ranks on two nodes are one alert",
        ),
        pytest.param(
            {run(LAST, rank="0"): stepping(30), run(LAST, rank="1"): stepping(2), run(P50): held((12, 60))},
            20,
            False,
            id="the youngest step counts",
        ),
        pytest.param(
            {
                run(LAST): stepping(10),
                run(P50): held((12, 60)),
                LAST + '{run="run43"}': stepping(60),
                P50 + '{run="run43"}': held((12, 60)),
            },
            20,
            True,
            id="another run's steps do not count",
        ),
        pytest.param(
            {run(LAST): stepping(10), run(P50): held((12, 60)), run("train_finished"): held((1, 60))},
            20,
            False,
            id="ended as planned",
        ),
        pytest.param({run(LAST): held((60, 60))}, 31, False, id="no median, 30 minutes"),
        pytest.param({run(LAST): held((60, 60))}, 31.5, True, id="no median, past 30 minutes"),
        pytest.param({run(ATTEMPT): held((60, 60))}, 31, False, id="no step ever, 30 minutes"),
        pytest.param({run(ATTEMPT): held((60, 60))}, 31.5, True, id="no step ever, past 30 minutes"),
    ],
)
def test_step_stalled(check_firing: Check, history: History, minute: float, fires: bool) -> None:
    check_firing("TrainingStepStalled", history, minute, [RUN] if fires else [])


@pytest.mark.parametrize(
    ("history", "minute", "fires"),
    [
        pytest.param({run("train_loss_is_finite", rank="0"): held((1, 9))}, 5, False, id="finite"),
        pytest.param({run("train_step", rank="0"): held((1, 9))}, 5, False, id="no loss told"),
        pytest.param({run("train_loss_is_finite", rank="7"): held((1, 3), (0, 9))}, 2.5, False, id="just before"),
        pytest.param(
            {
                run("train_loss_is_finite", rank="0"): held((1, 12)),
                run("train_loss_is_finite", rank="7"): held((1, 3), (0, 9)),
            },
            3,
            True,
            id="one rank of two, at once",
        ),
    ],
)
def test_loss_not_finite(check_firing: Check, history: History, minute: float, fires: bool) -> None:
    check_firing("TrainingLossNotFinite", history, minute, [RUN] if fires else [])


TWO = held((0, 10), (1, 10), (2, 10))
THREE = held((0, 5), (1, 5), (2, 5), (3, 20))


@pytest.mark.parametrize(
    ("history", "minute", "fires"),
    [
        pytest.param({run(RESTARTS): TWO}, 29, False, id="two in 30 minutes"),
        pytest.param({run(RESTARTS): THREE}, 29, True, id="three in 30 minutes"),
        pytest.param({run(RESTARTS): held((0, 20), (1, 20), (2, 20), (3, 20))}, 65, False, id="three in an hour"),
        pytest.param(
            {run(RESTARTS, instance="node001"): THREE, run(RESTARTS, instance="node002"): THREE},
            29,
            True,
            id="seen on two nodes, one alert",
        ),
        pytest.param(
            {run(RESTARTS, instance="node001"): TWO, run(RESTARTS, instance="node002"): TWO},
            29,
            False,
            id="two seen on two nodes are not four",
        ),
        pytest.param({run(RESTARTS): held((7, 10), ("_", 8), (7, 20))}, 25, False, id="exporter away for a while"),
        pytest.param({run(RESTARTS): held((7, 10), (0, 20))}, 25, False, id="exporter started anew"),
    ],
)
def test_restart_loop(check_firing: Check, history: History, minute: float, fires: bool) -> None:
    check_firing("TrainingRestartLoop", history, minute, [RUN] if fires else [])


@pytest.mark.parametrize(
    ("values", "minute", "fires"),
    [
        pytest.param(held((4, 40)), 29, False, id="none"),
        pytest.param(held((0, 10), (1, 40)), 29, True, id="one"),
        pytest.param(held((0, 10), (1, 60)), 45, False, id="over 30 minutes ago"),
        pytest.param(THREE, 29, False, id="a loop is paged instead"),
    ],
)
def test_restarted(check_firing: Check, values: str, minute: float, fires: bool) -> None:
    check_firing("TrainingRestarted", {run(RESTARTS): values}, minute, [RUN] if fires else [])


RESTART = {run(RESTARTS): held((0, 11), (1, 60)), run(ATTEMPT): held((0, 11), (660, 60))}


@pytest.mark.parametrize(
    ("history", "minute", "fires"),
    [
        pytest.param({**RESTART, run(LAST): stepping(10)}, 14, True, id="new attempt, no step yet"),
        pytest.param({**RESTART, run(LAST): held((600, 12), (730, 60))}, 14, False, id="its first step done"),
        pytest.param({**RESTART, run(LAST): stepping(10)}, 25.5, True, id="just under 15 minutes"),
        pytest.param({**RESTART, run(LAST): stepping(10)}, 26, False, id="15 minutes: no longer an excuse"),
        pytest.param({run(RESTARTS): held((0, 60)), run(ATTEMPT): held((60, 60))}, 5, False, id="a start, no restart"),
    ],
)
def test_restarting(check_firing: Check, history: History, minute: float, fires: bool) -> None:
    check_firing("TrainingRestarting", history, minute, [RUN] if fires else [])


@pytest.mark.parametrize(
    ("values", "minute", "fires"),
    [
        pytest.param(held((0, 90)), 80, False, id="none"),
        pytest.param(held((0, 70), (1, 90)), 70, True, id="at once"),
        pytest.param(held((0, 10), (1, 160)), 69, True, id="within the hour"),
        pytest.param(held((0, 10), (1, 160)), 71, False, id="past the hour"),
        pytest.param(held(("_", 10), (1, 160)), 20, True, id="first seen with a failure"),
        pytest.param(held(("_", 10), (1, 160)), 75, False, id="first seen with a failure, past the hour"),
        pytest.param(held((3, 70), (0, 90)), 80, False, id="trainer started anew"),
    ],
)
def test_checkpoint_save_failed(check_firing: Check, values: str, minute: float, fires: bool) -> None:
    check_firing("CheckpointSaveFailed", {run(FAILED, rank="0"): values}, minute, [RUN] if fires else [])


@pytest.mark.parametrize(
    ("history", "minute", "fires"),
    [
        pytest.param({run(SAVES): held((90, 20)), run("train_ckpt_baseline_s"): held((45, 20))}, 9, False, id="twice"),
        pytest.param({run(SAVES): held((91, 20)), run("train_ckpt_baseline_s"): held((45, 20))}, 9, True, id="past it"),
        pytest.param({run(SAVES): held((900, 20))}, 9, False, id="nothing to compare with"),
        pytest.param(
            {run(SAVES): held((45, 90), (91, 20)), run("train_ckpt_duration_s"): held((45, 90), (91, 20))},
            100,
            True,
            id="past twice what the day before took",
        ),
    ],
)
def test_checkpoint_slow(check_firing: Check, history: History, minute: float, fires: bool) -> None:
    check_firing("CheckpointSlow", history, minute, [RUN] if fires else [])


BASELINE = {run("train_mfu_baseline", rank="0"): held((40, 200))}


@pytest.mark.parametrize(
    ("history", "minute", "fires"),
    [
        pytest.param({**BASELINE, run("train_mfu"): held((34, 60))}, 50, False, id="15 % exactly"),
        pytest.param({**BASELINE, run("train_mfu"): held((40, 10), (33.9, 60))}, 39, False, id="for 29 minutes"),
        pytest.param({**BASELINE, run("train_mfu"): held((40, 10), (33.9, 60))}, 42, True, id="for 30 minutes"),
        pytest.param(
            {**BASELINE, run("train_mfu", rank="0"): held((30, 60)), run("train_mfu", rank="1"): "NaN " * 120},
            50,
            True,
            id="one rank tells NaN",
        ),
        pytest.param({run("train_mfu"): held((10, 60))}, 50, False, id="nothing to compare with"),
        pytest.param({run("train_mfu"): held((40, 120), (33, 60))}, 160, True, id="against the day before"),
    ],
)
def test_mfu_degraded(check_firing: Check, history: History, minute: float, fires: bool) -> None:
    check_firing("TrainingMfuDegraded", history, minute, [RUN] if fires else [])


@pytest.mark.parametrize(
    ("mfu", "fires"), [(40, False), (39.2, False), (39.1, True), (38.4, True), (34, True), (33.9, False)]
)
def test_mfu_below_baseline(check_firing: Check, mfu: float, fires: bool) -> None:
    check_firing(
        "TrainingMfuBelowBaseline", {**BASELINE, run("train_mfu"): held((mfu, 60))}, 50, [RUN] if fires else []
    )


COARSE = 4
"""Minutes between two samples of a day's history."""


@pytest.mark.parametrize(
    ("fraction", "hours", "fires"), [(0.84, 24, True), (0.85, 24, False), (0.5, 22.5, False), (None, 24, False)]
)
def test_effective_time(check_firing: Check, fraction: float | None, hours: float, fires: bool) -> None:
    """As reported; a run younger than a day is not judged; steps all day are enough where nothing is reported."""
    samples = 25 * 60 // COARSE
    history = {run(LAST): f"0+{COARSE * 60}x{samples}", run(P50): f"12x{samples}"}
    if fraction is not None:
        history[run("train_effective_fraction")] = f"{fraction}x{samples}"
    check_firing("EffectiveTrainingTimeLow", history, hours * 60, [RUN] if fires else [], interval=COARSE * 60)


@pytest.mark.parametrize(("lost_hours", "fires"), [(3, False), (4, True)])
def test_effective_time_without_data_is_lost_time(check_firing: Check, lost_hours: int, fires: bool) -> None:
    """85 % of 24 hours are 20.4: an exporter that is away for 3 hours is within it, for 4 hours it is not."""
    before, lost, after = (hours * 60 // COARSE for hours in (10, lost_hours, 15 - lost_hours))
    step = COARSE * 60
    last = f"0+{step}x{before - 1} _x{lost - 1} {(before + lost) * step}+{step}x{after}"
    p50 = f"12x{before - 1} _x{lost - 1} 12x{after}"
    history = {run(LAST): last, run(P50): p50}
    check_firing("EffectiveTrainingTimeLow", history, DAY, [RUN] if fires else [], interval=step)


@pytest.mark.parametrize(
    ("history", "minute", "fires"),
    [
        pytest.param({run("train_writers", instance="a"): held((8, 60))}, 30, False, id="writing"),
        pytest.param(
            {
                run("train_writers", instance="a"): held((8, 10), (0, 60)),
                run("train_writers", instance="b"): held((8, 70)),
            },
            30,
            False,
            id="gone on one node of two",
        ),
        pytest.param({run("train_writers"): held((8, 10), (0, 60))}, 14.5, False, id="gone for under 5 minutes"),
        pytest.param({run("train_writers"): held((8, 10), (0, 60))}, 15.5, True, id="gone for 5 minutes"),
        pytest.param({run("train_writers"): held((8, 10), (0, 3), (8, 60))}, 20, False, id="started again"),
        pytest.param(
            {run("train_writers"): held((8, 10), (0, 60)), run("train_finished"): held((1, 60))},
            30,
            False,
            id="ended as planned",
        ),
        pytest.param({run(LAST): "0+30x20 stale"}, 30, True, id="series went away"),
        pytest.param({run(LAST): "0+30x20 stale"}, 90, False, id="and an hour later"),
        pytest.param(
            {run(LAST): "0+30x20 stale", run("train_finished"): held((1, 10))}, 30, False, id="went away after its end"
        ),
    ],
)
def test_job_gone(check_firing: Check, history: History, minute: float, fires: bool) -> None:
    check_firing("TrainingJobGone", history, minute, [RUN] if fires else [])


@pytest.mark.parametrize(
    ("values", "minute", "fires"),
    [
        pytest.param(held((0, 60)), 30, False, id="in order"),
        pytest.param(held((0, 10), (1, 60)), 10, True, id="once"),
        pytest.param(held((0, 10), (1, 60)), 41, False, id="half an hour later"),
    ],
)
def test_data_position_backwards(check_firing: Check, values: str, minute: float, fires: bool) -> None:
    check_firing(
        "DataPositionBackwards", {run("train_data_backwards_total", rank="0"): values}, minute, [RUN] if fires else []
    )


@pytest.mark.parametrize(
    ("values", "minute", "fires"),
    [
        pytest.param(held((2, 60)), 30, False, id="none lately"),
        pytest.param(held((0, 10), (1, 60)), 10, True, id="one"),
        pytest.param(held((0, 10), (1, 60)), 21, False, id="10 minutes later"),
    ],
)
def test_grad_norm_spike(check_firing: Check, values: str, minute: float, fires: bool) -> None:
    check_firing(
        "GradNormSpike", {run("train_grad_norm_spikes_total", rank="0"): values}, minute, [RUN] if fires else []
    )
