"""A run's state from the lines of its files: JSONL, structured logs, and step lines where there is no JSONL."""

import json
from collections.abc import Sequence
from datetime import datetime
from itertools import count

import pytest

from oncall.signals.run_signals import FORGOTTEN_S, MAX_FILES, MAX_RANKS, RunSignals
from oncall.signals.tail import Chunk

NOW = 1_796_000_000.0
INODES = count(1)
STDOUT = "/logs/run42_ab12/attempt_0/3/stdout.log"


def chunk(path: str, lines: Sequence[str], *, inode: int | None = None, historical: bool = False) -> Chunk:
    data = [line.encode() for line in lines]
    key = (1, next(INODES) if inode is None else inode)
    return Chunk(path, key, NOW, sum(len(line) + 1 for line in data), data, historical)


def record(rank: int | None = 0, **fields: float) -> str:
    return json.dumps({"t": NOW - 5, **({} if rank is None else {"rank": rank}), **fields})


def span(name: str, second: float, **fields: object) -> str:
    time_us = round((NOW - 100 + second) * 1e6)
    return json.dumps(
        {"rank": 3, "log_type": "event", "log_type_name": name, "time_us": time_us, "step": 7, "task_name": None}
        | fields
    )


def test_ranks_are_kept_apart() -> None:
    run = RunSignals(None)
    run.take(chunk("/a/r0.jsonl", [record(0, step=1, loss=1.0), record(1, step=2, loss=2.0)]))
    assert {rank: state.values["loss"] for rank, state in run.ranks().items()} == {0: 1.0, 1: 2.0}
    assert (run.lines, run.bad_lines) == (2, 0)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank_17.jsonl", 17),
        ("rank5.jsonl", 5),
        ("signals-rank-12-0.jsonl", 12),
        ("training.global_rank_3.20260504-100000-Q1W2E3.jsonl", 3),
        ("frank7.jsonl", None),
        ("metrics.jsonl", None),
    ],
)
def test_rank_from_the_name_of_the_file(name: str, rank: int | None) -> None:
    run = RunSignals(None)
    run.take(chunk(f"/rank_99/{name}", [record(None, step=1)]))
    assert list(run.ranks()) == [rank]


def test_bad_lines_are_counted_and_the_rest_goes_on() -> None:
    run = RunSignals(None)
    run.take(
        chunk("/a/r0.jsonl", ['{"step": 1, "rank"', "", record(0, step=2), "\x1b[31mboom", '{"log_type_name": 3}'])
    )
    assert (run.lines, run.bad_lines) == (5, 3)
    assert run.ranks()[0].step == 2


def test_ranks_are_bounded() -> None:
    run = RunSignals(None)
    run.take(chunk("/a/r0.jsonl", [record(rank, step=1) for rank in range(MAX_RANKS + 50)]))
    run.take(chunk("/a/r1.jsonl", [record(2**40, step=1)]))
    assert len(run.ranks()) == MAX_RANKS
    assert run.bad_lines == 51


def test_rank_that_the_restarted_run_left_out_is_forgotten() -> None:
    """1,016 of 1,024 ranks go on: what the others said last must raise no alert for the rest of the run."""
    run = RunSignals(None)
    run.take(
        chunk("/a/r0.jsonl", [json.dumps({"t": NOW - FORGOTTEN_S - 1, "rank": 8, "step": 1, "loss": float("nan")})])
    )
    assert list(run.ranks()) == [8]
    run.take(chunk("/a/r0.jsonl", [json.dumps({"t": NOW, "rank": 0, "step": 9})]))
    assert list(run.ranks()) == [0]


def test_spans_are_paired_by_name_across_reads() -> None:
    run = RunSignals(None)
    run.take(chunk("/t.jsonl", [span("step_start", 1), span("fwd_bwd_start", 1.5)], inode=5))
    run.take(chunk("/t.jsonl", [span("fwd_bwd_end", 3.75), span("step_end", 5)], inode=5))
    assert run.ranks()[3].spans == {"fwd_bwd": 2.25, "step": 4.0}
    assert (run.ranks()[3].step, run.ranks()[3].completed) == (7, NOW - 95)


def test_nested_spans_of_one_name_close_from_the_inside() -> None:
    run = RunSignals(None)
    run.take(chunk("/t.jsonl", [span("gc_start", 0), span("gc_start", 1), span("gc_end", 2)], inode=5))
    assert run.ranks()[3].spans == {"gc": 1.0}
    run.take(chunk("/t.jsonl", [span("gc_end", 9)], inode=5))
    assert run.ranks()[3].spans == {"gc": 9.0}


def test_spans_of_two_tasks_do_not_close_each_other() -> None:
    run = RunSignals(None)
    lines = [
        span("fetch_start", 0, task_name="a"),
        span("fetch_start", 4, task_name="b"),
        span("fetch_end", 5, task_name="a"),
    ]
    run.take(chunk("/t.jsonl", lines))
    assert run.ranks()[3].spans == {"fetch": 5.0}


def test_end_without_its_start_takes_the_duration_it_tells() -> None:
    run = RunSignals(None)
    run.take(chunk("/t.jsonl", [span("optim_end", 9, value=120.0)]))
    assert run.ranks()[3].spans == {"optim": 0.12}


def test_span_that_raised_is_an_error_and_no_duration() -> None:
    run = RunSignals(None)
    lines = [span("checkpoint_save_start", 0), span("checkpoint_save_error", 9)]
    run.take(chunk("/t.jsonl", [*lines, span("checkpoint_save_end", 9.000001, value=9000.0)], inode=5))
    state = run.ranks()[3]
    assert state.span_errors["checkpoint_save"] == 1
    assert "checkpoint_save" not in state.spans
    assert "ckpt_duration_s" not in state.values


def test_instant_that_ends_like_a_span_is_none() -> None:
    run = RunSignals(None)
    run.take(chunk("/t.jsonl", [span("training_start", 0, log_type="instant"), span("x_start", 1)]))
    assert set(run.ranks()[3].span_errors) == {"x"}
    assert run.bad_lines == 0


def test_scalars_are_fields_of_their_name() -> None:
    run = RunSignals(None)
    scalar = {"log_type": "instant", "event_name": "train.tokens", "value": 8192.0}
    run.take(chunk("/t.jsonl", [span("metric_value", 1, **scalar)]))
    assert run.ranks()[3].values == {"train_tokens": 8192.0}
    assert run.ranks()[3].completed is None


def test_memory_of_files_is_bounded() -> None:
    run = RunSignals(None)
    for inode in range(MAX_FILES + 10):
        run.take(chunk("/t.jsonl", [span("x_start", 0)], inode=inode))
    run.take(chunk("/t.jsonl", [span("x_end", 2)], inode=0))
    assert run.ranks()[3].spans == {}


MEGATRON = (
    " [2026-11-27 10:00:0{}.000000] iteration     137{}/  100000 | consumed samples:       701440 |"
    " elapsed time per iteration (ms): 4812.3 | throughput per GPU (TFLOP/s/GPU): 411.2 | learning rate: 2.987E-04 |"
    " lm loss: {} | loss scale: 1.0 | grad norm: 0.812 | num zeros: 1834 | params norm: 2731.402 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)


def test_megatron_lines_where_there_is_no_jsonl() -> None:
    run = RunSignals(first_rank=288)
    run.take(chunk(STDOUT, [MEGATRON.format(0, 0, "2.104E+00")]))
    state = run.ranks()[291]
    stamp = datetime.fromisoformat("2026-11-27T10:00:00").astimezone().timestamp()
    assert (state.step, state.completed) == (1370, stamp)
    assert state.values == {
        "step_time_s": pytest.approx(4.8123),
        "consumed_samples": 701440,
        "tflops": 411.2,
        "lr": 2.987e-4,
        "loss": 2.104,
        "loss_scale": 1.0,
        "grad_norm": 0.812,
        "num_zeros_in_grad": 1834,
        "param_norm": 2731.402,
        "skipped": 0,
    }


def test_loss_that_is_not_a_number_in_a_log() -> None:
    run = RunSignals(first_rank=0)
    run.take(chunk(STDOUT, [MEGATRON.format(0, 0, "2.104E+00"), MEGATRON.format(5, 1, "NAN")]))
    assert run.ranks()[3].loss_is_finite is False


def test_torchtitan_lines_get_their_step_time_from_their_stamps() -> None:
    line = (
        "[titan] 2026-11-27 10:00:{:02},000 - root - INFO - step: {}  loss:  3.5  grad_norm:  1.5"
        "  memory: 58.00GiB(73.87%)  tps: 7,204  tflops: 417.11  mfu: 42.17%"
    )
    run = RunSignals(first_rank=0)
    run.take(chunk(STDOUT, [line.format(0, 10), line.format(40, 20)]))
    state = run.ranks()[3]
    assert state.step_time_p50 == 4.0
    assert {name: state.values[name] for name in ("mfu", "tps", "mem_reserved_peak")} == {
        "mfu": 42.17,
        "tps": 7204,
        "mem_reserved_peak": 58 * 2**30,
    }


def test_checkpoint_lines_of_one_save_in_two_reads() -> None:
    run = RunSignals(first_rank=0)
    run.take(chunk(STDOUT, ["[2026-11-27 00:10:00.000000] saving checkpoint at iteration      50 to /ckpt"], inode=9))
    done = (
        "  [2026-11-27 00:10:31.500000] successfully saved checkpoint from iteration      50 to /ckpt [ t 1/8, p 1/4 ]"
    )
    run.take(chunk(STDOUT, [done], inode=9))
    (state,) = run.ranks().values()
    assert state.values["ckpt_duration_s"] == 31.5


@pytest.mark.parametrize(("reason", "finished"), [("at iteration 1000", True), ("after receiving SIGTERM.", False)])
def test_planned_end(reason: str, finished: bool) -> None:
    run = RunSignals(first_rank=0)
    line = f"[exiting program {reason}] datetime: 2026-11-27 11:04:00 "
    run.take(chunk(STDOUT, [MEGATRON.format(0, 0, "2.1E+00"), line]))
    assert any("finished" in state.values for state in run.ranks().values()) is finished


def test_jsonl_speaks_and_the_log_is_silent() -> None:
    run = RunSignals(first_rank=0)
    run.take(chunk(STDOUT, [MEGATRON.format(0, 0, "2.104E+00")]))
    run.take(chunk("/a/r0.jsonl", [record(0, step=1371, loss=2.0)]))
    run.take(chunk(STDOUT, [MEGATRON.format(5, 2, "1.9E+00")]))
    assert {rank: state.step for rank, state in run.ranks().items()} == {0: 1371}


def test_log_bytes_are_those_since_the_start() -> None:
    run = RunSignals(first_rank=None)
    run.take(chunk(STDOUT, ["x" * 99], historical=True))
    run.take(chunk(STDOUT, ["x" * 99, "y" * 9]))
    run.take(chunk(STDOUT.replace("stdout", "stderr"), ["z" * 4]))
    run.take(chunk("/logs/other/stdout.log", ["z" * 4]))
    assert run.log_bytes == {3: 115}
