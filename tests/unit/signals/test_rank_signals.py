"""What the exporter makes of one rank's records."""

import math

import pytest

from oncall.signals.data_position import DataPosition
from oncall.signals.rank_signals import RankSignals
from oncall.signals.records import StepRecord

START = 1_796_000_000.0


def feed(state: RankSignals, step: int, time: float, *, live: bool = True, **values: float | None) -> None:
    state.take(StepRecord(0, START + time, step, values), live)


def test_last_step_is_when_the_step_changed_not_when_a_line_came() -> None:
    state = RankSignals()
    feed(state, 7, 10)
    feed(state, 7, 500, loss=1.0)
    assert (state.step, state.completed) == (7, START + 10)


def test_going_back_to_a_checkpoint_is_progress() -> None:
    state = RankSignals()
    feed(state, 300, 10)
    feed(state, 201, 600)
    assert (state.step, state.completed) == (201, START + 600)


def test_step_time_follows_from_the_times_where_it_is_not_told() -> None:
    state = RankSignals()
    for step, time in ((10, 0), (20, 50), (30, 90)):
        feed(state, step, time)
    assert state.values["step_time_s"] == 4.0
    assert state.step_time_p50 == 4.5


def test_median_is_of_the_last_twenty_steps() -> None:
    state = RankSignals()
    for step in range(100):
        feed(state, step, step, step_time_s=1.0 if step < 89 else 3.0)
    assert state.step_time_p50 == 3.0
    for step in range(100, 109):
        feed(state, step, step, step_time_s=5.0)
    assert state.step_time_p50 == 3.0


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_loss_is_finite_until_told_otherwise(loss: float) -> None:
    state = RankSignals()
    feed(state, 1, 1)
    assert state.loss_is_finite is None
    feed(state, 2, 2, loss=2.0)
    assert state.loss_is_finite is True
    feed(state, 3, 3, loss=loss)
    assert state.loss_is_finite is False
    feed(state, 4, 4, grad_norm=1.0)
    assert state.loss_is_finite is False


def test_null_forgets_the_value() -> None:
    state = RankSignals()
    feed(state, 1, 1, mfu=40.0)
    feed(state, 2, 2, mfu=None)
    assert "mfu" not in state.values


def test_history_of_an_older_file_changes_nothing() -> None:
    """The rank moved to a new file; at the start both are read, in either order."""
    state = RankSignals()
    feed(state, 900, 900, live=False, loss=1.5)
    feed(state, 400, 400, live=False, loss=3.0)
    assert (state.step, state.values["loss"]) == (900, 1.5)


def test_spike_against_the_median_before_it() -> None:
    state = RankSignals()
    for step in range(9):
        feed(state, step, step, grad_norm=1.0)
    feed(state, 9, 9, grad_norm=50.0)
    assert state.grad_norm_spikes == 0, "nine norms are too few to judge by"
    feed(state, 10, 10, grad_norm=3.0)
    assert state.grad_norm_spikes == 0, "three times the median exactly"
    feed(state, 11, 11, grad_norm=3.1)
    feed(state, 12, 12, grad_norm=math.inf)
    assert state.grad_norm_spikes == 1


def test_history_counts_nothing() -> None:
    state = RankSignals()
    for step in range(12):
        feed(state, step, step, live=False, grad_norm=1.0, consumed_samples=1000.0 - step)
    feed(state, 12, 12, live=False, grad_norm=99.0)
    state.fail_span("checkpoint_save", START + 12, live=False)
    assert (state.grad_norm_spikes, state.data_backwards, state.span_errors["checkpoint_save"]) == (0, 0, 0)


def test_nothing_to_count_is_not_zero() -> None:
    state = RankSignals()
    feed(state, 1, 1, loss=1.0)
    assert (state.grad_norm_spikes, state.data_backwards, state.shorter_of_two_saves) == (None, None, None)
    assert "checkpoint_save" not in state.span_errors


def test_saves_are_told_apart_from_a_value_that_is_repeated_each_step() -> None:
    state = RankSignals()
    for step in range(5):
        feed(state, step, step, ckpt_duration_s=90.0)
    assert state.shorter_of_two_saves is None
    feed(state, 5, 5, ckpt_duration_s=45.0)
    assert state.shorter_of_two_saves == 45.0


def test_save_span_of_a_step_without_a_save_is_no_save() -> None:
    state = RankSignals()
    for step in range(5):
        state.end_span("checkpoint_save", 0.0002, step, START + step, live=True)
    assert "ckpt_duration_s" not in state.values
    state.end_span("checkpoint_save", 44.0, 5, START + 5, live=True)
    state.end_span("checkpoint_save", 46.0, 9, START + 9, live=True)
    assert (state.values["ckpt_duration_s"], state.shorter_of_two_saves) == (46.0, 44.0)


def test_step_span_completes_a_step() -> None:
    state = RankSignals()
    state.end_span("step", 4.5, 7, START + 3, live=True)
    assert (state.step, state.completed, state.step_time_p50) == (7, START + 3, 4.5)


def test_finished_holds_until_another_step() -> None:
    state = RankSignals()
    feed(state, 1, 1)
    state.take(StepRecord(0, START + 2, None, {"finished": 1.0}), live=True)
    assert state.values["finished"] == 1.0
    feed(state, 2, 3)
    assert "finished" not in state.values


def test_number_of_span_names_is_bounded() -> None:
    state = RankSignals()
    for number in range(1000):
        state.start_span(f"s{number}", START)
        state.end_span(f"s{number}", 1.0, None, START, live=True)
        state.fail_span(f"s{number}", START, live=True)
    assert len(state.spans) == len(state.span_errors) == 64


@pytest.mark.parametrize(
    ("told", "backwards"),
    [
        pytest.param([(1, 100), (2, 200), (3, 300)], 0, id="in order"),
        pytest.param([(1, 100), (2, 100)], 0, id="a skipped step"),
        pytest.param([(1, 100), (2, 90)], 1, id="back without a rollback"),
        pytest.param([(1, 100), (2, 200), (3, 300), (2, 200), (3, 300)], 0, id="rollback, same data again"),
        pytest.param([(1, 100), (2, 200), (3, 300), (2, 250), (3, 350)], 0, id="rollback, data skipped on purpose"),
        pytest.param([(1, 100), (2, 200), (3, 300), (2, 100), (3, 200)], 1, id="rollback, data from before"),
        pytest.param([(1, 100), (2, 200), (3, 300), (2, 0)], 1, id="rollback, data from the beginning"),
        pytest.param([(5, 500), (1, 0), (2, 100)], 0, id="rollback beyond what is known"),
    ],
)
def test_data_position(told: list[tuple[int, float]], backwards: int) -> None:
    position = DataPosition()
    assert sum(position.goes_back(step, consumed) for step, consumed in told) == backwards
