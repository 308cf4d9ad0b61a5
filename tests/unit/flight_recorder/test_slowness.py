"""Who is slow in a job that goes on: by durations, by issue times, and when neither may be trusted."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from handwritten import Entry, blobs, completed, dump

from oncall.flight_recorder import Movement, Pace, compare, load_blobs

Late = Callable[[int, int], float]
"""Milliseconds by which a rank is late at an operation."""

PERIOD_NS = 10**9


def rows(rank: int, first: int, late: Late) -> list[Entry]:
    rng = random.Random(f"{rank}/{first}")
    issued = {n: n * PERIOD_NS + int((rng.uniform(0, 0.5) + late(rank, n)) * 1e6) for n in range(first, first + 40)}
    return [completed(n, record=n, time_created_ns=1_790_000_000_000_000_000 + ns) for n, ns in issued.items()]


def issued(late: Late, name: Callable[[int], str] = "rank_{}".format) -> Movement:
    """Two snapshots of four ranks in step, without durations."""
    old, new = (load_blobs(blobs({r: dump(rows(r, at, late), world=4) for r in range(4)}, name)) for at in (1, 41))
    return compare(new, old)


def test_a_host_that_issues_last_by_a_varying_time_is_named() -> None:
    movement = issued(lambda rank, n: 20 + 50 * (n % 4) if rank == 2 else 0)
    assert movement.pace is Pace.SLOW
    assert [slow.rank for slow in movement.slow] == [2]


def test_the_jitter_of_a_busy_host_is_no_slow_rank() -> None:
    movement = issued(lambda rank, n: 4 + 3 * (n % 4) if rank == 2 else 0)
    assert (movement.pace, movement.slow) == (Pace.MOVING, ())


@pytest.mark.parametrize("late_ms", [5.0, 200.0])
def test_a_constant_lateness_is_a_slow_host_or_a_clock(late_ms: float) -> None:
    """Clocks of different hosts are not known to agree; that rank 2 is even is no more true than that it is slow."""
    movement = issued(lambda rank, _: late_ms if rank == 2 else 0)
    assert (movement.pace, movement.slow) == (Pace.MOVING, ())
    assert movement.untold is not None
    assert "rank 2 issues" in movement.untold
    assert "clock" in movement.untold
    assert "TORCH_NCCL_ENABLE_TIMING=1" in movement.untold


def test_a_constant_lateness_among_the_ranks_of_one_host_is_no_clock() -> None:
    movement = issued(lambda rank, _: 200 if rank == 2 else 0, lambda rank: f"node{rank // 2}/rank_{rank}")
    assert [slow.rank for slow in movement.slow] == [2]


def test_a_host_whose_clock_is_ahead_accuses_none_of_its_ranks() -> None:
    movement = issued(lambda rank, _: 200 if rank > 1 else 0, lambda rank: f"node{rank // 2}/rank_{rank}")
    assert (movement.pace, movement.slow) == (Pace.MOVING, ())


def test_even_issue_times_do_not_clear_the_devices() -> None:
    movement = issued(lambda *_: 0)
    assert (movement.pace, movement.slow) == (Pace.MOVING, ())
    assert "TORCH_NCCL_ENABLE_TIMING=1" in movement.says


Took = Callable[[int, int], float]
"""Milliseconds that an operation took on a rank."""


def pipeline(took: Took, *, operations: int = 40) -> Movement:
    """Two stages of two ranks each: 0 and 1 send to 2 and 3; one operation of the world ends each step."""
    table: dict[str, dict[str, Any]] = {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
        "1": {"name": "1", "desc": "mesh_pp", "ranks": "[0, 2]"},
        "2": {"name": "2", "desc": "mesh_pp", "ranks": "[1, 3]"},
    }

    def steps(rank: int, first: int) -> list[Entry]:
        own, name = ("1", "2")[rank % 2], "send 0->1" if rank < 2 else "recv 1<-0"
        entries = []
        for n in range(first, first + operations):
            transfer: dict[str, Any] = {"p2p_seq_id": n, "is_p2p": True, "process_group": (own, "mesh_pp"), "pg_id": 1}
            entries.append(completed(0, name, record=2 * n, **transfer))
            entries.append(completed(n, record=2 * n + 1, duration_ms=took(rank, n)))
        return entries

    def snapshot(first: int) -> dict[int, dict[str, Any]]:
        return {
            rank: dump(steps(rank, first), pg_config={"0": table["0"], name: table[name]})
            for rank, name in enumerate("1212")
        }

    return compare(load_blobs(blobs(snapshot(1 + operations))), load_blobs(blobs(snapshot(1))))


def test_the_first_stage_ends_last_and_is_not_slow_for_that() -> None:
    movement = pipeline(lambda rank, n: (2 if rank < 2 else 20) + 0.01 * ((n + rank) % 3))
    assert (movement.pace, movement.slow) == (Pace.RUNNING, ())


@pytest.mark.parametrize("slow", range(4))
def test_in_a_pipeline_a_rank_is_held_against_those_of_its_stage(slow: int) -> None:
    movement = pipeline(lambda rank, _: (5 if rank < 2 else 20) - 3 * (rank == slow))
    assert [each.rank for each in movement.slow] == [slow]


def test_too_few_operations_clear_nobody() -> None:
    movement = pipeline(lambda *_: 5.0, operations=5)
    assert (movement.pace, movement.slow) == (Pace.MOVING, ())
    assert movement.untold is not None
    assert "too few" in movement.untold


def test_a_stage_of_one_rank_has_nobody_to_be_held_against() -> None:
    table = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}

    def steps(rank: int, first: int) -> list[Entry]:
        name = ("send 0->1", "recv 1<-0")[rank]
        entries = []
        for n in range(first, first + 20):
            entries.append(completed(n, name, record=2 * n, p2p_seq_id=n, is_p2p=True))
            entries.append(completed(n, record=2 * n + 1, duration_ms=1.0 + 9 * rank))
        return entries

    old, new = (load_blobs(blobs({r: dump(steps(r, at), pg_config=table) for r in range(2)})) for at in (1, 21))
    movement = compare(new, old)
    assert (movement.pace, movement.slow) == (Pace.MOVING, ())
    assert movement.untold is not None
    assert "ranks 0-1" in movement.untold
