"""Dumps of one job that were not taken at the same moment, and two snapshots of a job that stands."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from handwritten import Entry, blobs, completed, dump, entry

from oncall import cli
from oncall.flight_recorder import Analysis, Grade, Kind, Pace, analyse, compare, load_blobs
from oncall.flight_recorder.report import as_text

HOUR_NS = 3600 * 10**9
Dumps = dict[int, dict[str, Any]]


def judge(dumps: Dumps, *, still: bool = False) -> Analysis:
    return analyse(load_blobs(blobs(dumps)), still=still)


def named(analysis: Analysis) -> list[tuple[Kind, tuple[int, ...]]]:
    return [(origin.kind, origin.ranks) for origin in analysis.origins]


def absent(analysis: Analysis) -> dict[int, str]:
    return {row.rank: row.reason for row in analysis.coverage.absent}


def at_work(front: int, *, opened: int = 2, op: str = "all_reduce", later_ns: int = 0) -> list[Entry]:
    """A rank that is done with all before `front` and has `opened` operations enqueued from there."""
    rows = [completed(n, op) for n in range(front - 10, front)] + [entry(n, op) for n in range(front, front + opened)]
    return [{**row, "time_created_ns": row["time_created_ns"] + later_ns} for row in rows]


@pytest.mark.parametrize("lacks", [1, 2, 30])
@pytest.mark.parametrize("op", ["all_reduce", "_allgather_base", "ALLGATHER_coalesced"])
def test_an_older_dump_accuses_nobody_and_is_named_as_the_one_that_decides(op: str, lacks: int) -> None:
    """Fifteen ranks finished what rank 5 had not even issued when it was dumped: nothing is wrong with it."""
    fronts = {rank: 130 if rank != 5 else 130 - lacks - 2 for rank in range(16)}
    analysis = judge({rank: dump(at_work(front, op=op), world=16) for rank, front in fronts.items()})
    assert analysis.origins == ()
    assert [row.deciding for row in analysis.undecided] == [(5,)]
    assert list(absent(analysis)) == [5]
    assert "older than those of its peers" in absent(analysis)[5]
    assert "the dumps of rank 5 would decide" in as_text(analysis)


@pytest.mark.parametrize("idle", [False, True])
def test_beside_an_older_dump_the_rank_that_hangs_is_still_named(idle: bool) -> None:
    dumps = {rank: dump(at_work(130), world=16) for rank in range(16)}
    dumps[5] = dump(at_work(100, opened=0 if idle else 2), world=16)
    dumps[9] = dump(at_work(130, opened=0), world=16)
    analysis = judge(dumps)
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (9,))]
    assert analysis.undecided == ()
    assert list(absent(analysis)) == [5]


def test_an_older_dump_is_known_by_the_counters_of_dumps_of_active_operations() -> None:
    def active(front: int) -> dict[str, Any]:
        counters = {"last_enqueued_collective": front, "last_completed_collective": front - 1}
        return dump([entry(front)], world=4, pg_status={"0": counters})

    analysis = judge({0: active(90), 1: active(90), 2: active(85), 3: active(90)})
    assert analysis.origins == ()
    assert [row.deciding for row in analysis.undecided] == [(2,)]


@pytest.mark.parametrize("op", ["broadcast", "_broadcast_oop", "reduce", "_reduce_oop"])
def test_what_one_member_may_finish_alone_does_not_make_a_dump_old(op: str) -> None:
    """The root is done with two and waits in the next; rank 3 never came, and is the one to look at."""
    rows = [completed(n) for n in range(1, 10)]
    dumps = {rank: dump([*rows, entry(10, op)], world=4) for rank in range(3)}
    dumps[0] = dump([*rows, completed(10, op), completed(11, op), entry(12)], world=4)
    dumps[3] = dump(rows, world=4)
    assert (Kind.STUCK_BEFORE_COLLECTIVE, (3,)) in named(judge(dumps))


def test_a_file_of_an_earlier_incident_is_told_as_such() -> None:
    """Rank 3 left no dump today; yesterday's lies there. Rank 5 hangs."""
    dumps = {rank: dump(at_work(5000), world=8) for rank in range(8)}
    dumps[3] = dump(at_work(4000, later_ns=-24 * HOUR_NS), world=8)
    dumps[5] = dump(at_work(5000, opened=0), world=8)
    analysis = judge(dumps)
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (5,))]
    assert "24 h before" in absent(analysis)[3]
    assert "earlier incident" in absent(analysis)[3]


def test_a_file_of_an_earlier_incident_that_had_come_further_is_set_aside() -> None:
    """The job began again and numbers from 1; the file left by the run before ends at 5,000."""
    dumps = {rank: dump(at_work(300), world=8) for rank in range(8)}
    dumps[3] = dump(at_work(5000, later_ns=-24 * HOUR_NS), world=8)
    dumps[5] = dump(at_work(300, opened=0), world=8)
    analysis = judge(dumps)
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (5,))]
    assert "earlier incident" in absent(analysis)[3]


def test_a_clock_that_is_hours_off_is_no_old_dump() -> None:
    late = {rank: -5 * HOUR_NS if rank < 4 else 0 for rank in range(8)}
    dumps = {rank: dump(at_work(300, later_ns=late[rank]), world=8) for rank in range(8)}
    dumps[2] = dump(at_work(300, opened=0, later_ns=late[2]), world=8)
    analysis = judge(dumps)
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (2,))]
    assert absent(analysis) == {}


def test_where_half_of_the_dumps_are_older_the_job_moves() -> None:
    dumps = {rank: dump(at_work(130 if rank % 2 else 100), world=8) for rank in range(8)}
    analysis = judge(dumps)
    assert analysis.origins == ()
    assert analysis.undecided == ()
    assert analysis.motion is not None


def on_the_way(behind: Sequence[int], *, world: int = 8, lag: int = 1) -> Dumps:
    """All have issued up to 60; the ranks of `behind` hold the last `lag` operations that the others finished."""

    def rows(rank: int) -> list[Entry]:
        front = 51 - lag if rank in behind else 51
        return [*(completed(n) for n in range(1, front)), *(entry(n) for n in range(front, 61))]

    return {rank: dump(rows(rank), world=world) for rank in range(world)}


STANDING: list[tuple[str, Dumps, Kind, tuple[int, ...], tuple[int, ...]]] = [
    ("half done", on_the_way(range(2, 8)), Kind.TRANSPORT_STALL, (), (2, 3, 4, 5, 6, 7)),
    ("one holds", on_the_way([4]), Kind.GPU_STALLED, (4,), (4,)),
]


@pytest.mark.parametrize(
    ("dumps", "kind", "ranks", "among"), [row[1:] for row in STANDING], ids=[r[0] for r in STANDING]
)
def test_what_differs_by_an_operation_is_a_fault_once_the_job_is_known_to_stand(
    dumps: Dumps, kind: Kind, ranks: tuple[int, ...], among: tuple[int, ...]
) -> None:
    assert judge(dumps).origins == ()
    (origin,) = judge(dumps, still=True).origins
    assert (origin.kind, origin.ranks, origin.among) == (kind, ranks, among)
    assert origin.grade is Grade.LIKELY
    assert origin.explains.ranks == origin.explains.waiting == 8


def test_the_ranks_of_a_node_that_lag_in_a_standstill_are_named() -> None:
    dumps = on_the_way(range(8, 12), world=64, lag=3)
    assert judge(dumps).origins == ()
    standing = judge(dumps, still=True)
    assert sorted(named(standing)) == [(Kind.GPU_STALLED, (rank,)) for rank in range(8, 12)]


@pytest.fixture
def save(tmp_path: Path) -> Callable[[str, Dumps], str]:
    def write(name: str, dumps: Dumps) -> str:
        folder = tmp_path / name
        folder.mkdir()
        for file, content in blobs(dumps):
            (folder / file).write_bytes(content)
        return str(folder)

    return write


def healthy(upto: int) -> Dumps:
    return {rank: dump([completed(n) for n in range(1, upto)], world=4) for rank in range(4)}


def test_exit_codes_never_clear_what_is_not_known(save: Callable[[str, Dumps], str]) -> None:
    """The table of exit codes: 0 nothing wrong, 10 cause found, 11 undecided, 12 not enough to say."""
    tie = {r: dump([completed(1), entry(2, "broadcast" if r else "all_reduce")]) for r in range(2)}
    pairs = {
        r: dump(
            [completed(1), entry(2)], pg_config={"0": {"name": "0", "desc": "dp", "ranks": str([r % 2, r % 2 + 2])}}
        )
        for r in range(4)
    }
    codes = {
        "healthy": (healthy(5), 0),
        "one side of a tie": (tie, 11),
        "all groups within an operation": (pairs, 12),
        "some finished it": (on_the_way(range(2, 8)), 12),
        "one is late": (on_the_way([4]), 12),
        "a dump is missing": ({r: d for r, d in healthy(5).items() if r}, 12),
        "older dump": ({r: dump(at_work(99 - 20 * (r == 1)), world=4) for r in range(4)}, 11),
        "stuck": ({r: dump(at_work(99, opened=r and 1), world=4) for r in range(4)}, 10),
    }
    assert {name: cli.main(["fr", save(name, dumps)]) for name, (dumps, _) in codes.items()} == {
        name: code for name, (_, code) in codes.items()
    }


def test_a_job_that_stands_is_never_fine(save: Callable[[str, Dumps], str], capsys: pytest.CaptureFixture[str]) -> None:
    idle = save("idle", healthy(5))
    assert cli.main(["fr", idle, "--since", idle]) == 11
    for name, dumps, kind, _, _ in STANDING:
        folder = save(name, dumps)
        capsys.readouterr()
        assert cli.main(["fr", "--json", folder, "--since", folder]) == 10
        answer = json.loads(capsys.readouterr().out)
        assert answer["movement"]["pace"] == "stuck"
        assert [origin["kind"] for origin in answer["origins"]] == [kind]


def test_snapshots_of_different_ranks_tell_nothing(save: Callable[[str, Dumps], str]) -> None:
    first, second = ({r: d for r, d in healthy(5).items() if r in some} for some in ({0, 1}, {2, 3}))
    assert compare(load_blobs(blobs(second)), load_blobs(blobs(first))).pace is Pace.UNKNOWN
    assert cli.main(["fr", save("second", second), "--since", save("first", first)]) == 12


def test_a_tie_says_what_each_side_issued_and_accuses_neither() -> None:
    (origin,) = judge({r: dump([completed(1), entry(2, "broadcast" if r else "all_reduce")]) for r in range(2)}).origins
    assert (origin.ranks, origin.grade) == ((), Grade.UNDECIDED)
    assert "rank 0 issued all_reduce" in origin.says
    assert "rank 1 issued broadcast" in origin.says
    assert "peers" not in origin.says


@pytest.mark.parametrize(("ahead", "grade"), [(0, Grade.LIKELY), (30, Grade.SURE)])
def test_far_behind_is_sure_only_where_the_dump_cannot_be_older(ahead: int, grade: Grade) -> None:
    """Hosts enqueue 60 ahead of their devices: a dump of 30 operations before lists all that is over by now, too."""
    dumps = {rank: dump(at_work(130, opened=60), world=16) for rank in range(16)}
    dumps[5] = dump(at_work(100, opened=60 + ahead), world=16)
    (origin,) = judge(dumps).origins
    assert (origin.kind, origin.ranks, origin.grade) == (Kind.GPU_STALLED, (5,), grade)


@pytest.mark.parametrize("joined", [True, False])
def test_a_file_of_an_earlier_incident_that_came_to_the_same_place(joined: bool) -> None:
    """The job hangs at the same step after each restart; what rank 3 left yesterday says nothing of today."""
    dumps = {rank: dump(at_work(300), world=8) for rank in range(8)}
    dumps[3] = dump(at_work(300, opened=2 * joined, later_ns=-24 * HOUR_NS), world=8)
    analysis = judge(dumps)
    assert analysis.origins == ()
    assert [row.deciding for row in analysis.undecided] == [(3,)]
    assert "earlier incident" in absent(analysis)[3]


def test_a_rank_that_has_long_had_nothing_to_do_is_no_old_dump() -> None:
    """It took part in what all did five hours ago, at the same time, and hangs before what all wait in now."""
    start = [completed(n) for n in range(1, 6)]
    later = [{**entry(6), "time_created_ns": start[-1]["time_created_ns"] + 5 * HOUR_NS}]
    dumps = {rank: dump(start if rank == 3 else [*start, *later], world=8) for rank in range(8)}
    assert named(judge(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (3,))]
