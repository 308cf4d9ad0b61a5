"""The wait-for graph on small jobs written by hand: each kind of origin, and what must not be taken for one."""

from collections.abc import Mapping
from typing import Any

import pytest
from handwritten import Entry, blobs, completed, dump, entry

from oncall.flight_recorder import Analysis, Grade, Kind, analyse, load_blobs
from oncall.flight_recorder.report import as_text


def judge(dumps: Mapping[int, dict[str, Any]], world: int | None = None) -> Analysis:
    return analyse(load_blobs(blobs(dict(dumps))), world_size=world)


def named(analysis: Analysis) -> list[tuple[Kind, tuple[int, ...]]]:
    return [(origin.kind, origin.ranks) for origin in analysis.origins]


def status(enqueued: int, finished: int) -> dict[str, Any]:
    row = {"last_enqueued_collective": enqueued, "last_started_collective": -1, "last_completed_collective": finished}
    return {"0": row}


def test_a_crashed_rank_leaves_a_ring_half_done_and_nobody_is_a_stalled_gpu() -> None:
    """Ranks 0 and 1 finished operation 2 before rank 3 died in it, 2 and 4 did not; rank 3 left no dump."""
    done = [completed(1), completed(2), entry(3)]
    open_ = [completed(1), entry(2), entry(3)]
    dumps = {rank: dump(done if rank < 2 else open_, world=5) for rank in (0, 1, 2, 4)}
    analysis = judge(dumps)
    assert named(analysis) == [(Kind.PROCESS_LOST, (3,))]
    assert analysis.origins[0].grade is Grade.LIKELY


def test_the_last_entry_is_not_where_a_rank_hangs() -> None:
    """All enqueued far ahead; rank 1 stopped before operation 4, the others' last entry is 60."""
    ahead = [*(completed(n) for n in range(1, 4)), *(entry(n) for n in range(4, 61))]
    dumps = {rank: dump(ahead if rank != 1 else ahead[:3], world=4) for rank in range(4)}
    (origin,) = judge(dumps).origins
    assert (origin.kind, origin.ranks, origin.seq) == (Kind.STUCK_BEFORE_COLLECTIVE, (1,), 4)
    assert origin.explains.ranks == origin.explains.waiting == 3


def test_recorded_but_not_enqueued_is_inside_the_launch_call() -> None:
    dumps = {rank: dump([completed(1), entry(2)], world=3, pg_status=status(2, 1)) for rank in range(3)}
    dumps[2]["pg_status"] = status(1, 1)
    (origin,) = judge(dumps).origins
    assert (origin.kind, origin.ranks, origin.seq) == (Kind.IN_LAUNCH, (2,), 2)


def test_a_rank_with_counters_only_takes_part() -> None:
    dumps = {rank: dump([entry(7)], world=3, pg_status=status(7, 6)) for rank in range(2)}
    dumps[2] = dump([], world=3, pg_status=status(6, 6))
    assert named(judge(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (2,))]


def test_far_behind_with_a_lost_device() -> None:
    rows = [completed(n) for n in range(1, 31)]
    dumps = {rank: dump([*rows, entry(31)], world=8) for rank in range(8)}
    dumps[3] = dump([*rows[:10], *(entry(n) for n in range(11, 31))], world=8)
    (origin,) = judge(dumps).origins
    assert (origin.kind, origin.ranks, origin.seq) == (Kind.GPU_STALLED, (3,), 11)


def test_several_missing_dumps_name_nobody_and_say_which_would_decide() -> None:
    dumps = {rank: dump([completed(1), entry(2)], world=6) for rank in (0, 1, 2, 5)}
    analysis = judge(dumps)
    assert analysis.origins == ()
    (open_part,) = analysis.undecided
    assert open_part.deciding == (3, 4)
    assert (open_part.explains.ranks, open_part.explains.waiting) == (4, 4)


def test_a_positive_origin_outranks_a_missing_dump() -> None:
    dumps = {rank: dump([completed(1), entry(2)], world=6) for rank in (0, 1, 2, 4)}
    dumps[5] = dump([completed(1)], world=6)
    analysis = judge(dumps)
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (5,))]
    assert analysis.undecided == ()
    assert [absent.rank for absent in analysis.coverage.absent] == [3]


def test_ranks_beyond_those_the_dumps_mention() -> None:
    dumps = {rank: dump([entry(1, profiling_name="gloo:all_reduce")], pg_config={}) for rank in range(3)}
    assert named(judge(dumps, world=4)) == [(Kind.PROCESS_LOST, (3,))]


PAIRS: dict[str, dict[str, Any]] = {
    "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"},
    "a": {"name": "a", "desc": "mesh_a", "ranks": "[0, 1]"},
    "b": {"name": "b", "desc": "mesh_b", "ranks": "[2, 3]"},
}


def on(group: str, record: int, seq: int = 1, **changed: Any) -> Entry:
    desc = PAIRS[group]["desc"]
    return entry(seq, record=record, process_group=(group, desc), pg_id=ord(group), **changed)


def test_several_independent_origins_come_out_together() -> None:
    dumps = {
        0: dump([on("a", 1)], pg_config={"0": PAIRS["0"], "a": PAIRS["a"]}),
        1: dump([completed(1, record=0)], pg_config={"0": PAIRS["0"], "a": PAIRS["a"]}),
        2: dump([on("b", 1)], pg_config={"0": PAIRS["0"], "b": PAIRS["b"]}),
        3: dump([completed(1, record=0)], pg_config={"0": PAIRS["0"], "b": PAIRS["b"]}),
    }
    analysis = judge(dumps)
    assert sorted(named(analysis)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (1,)), (Kind.STUCK_BEFORE_COLLECTIVE, (3,))]
    assert [o.explains.ranks for o in analysis.origins] == [1, 1]


def test_groups_used_in_opposite_orders_are_a_cycle_that_names_nobody() -> None:
    table = {n: {"name": n, "desc": n, "ranks": "[0, 1]"} for n in ("x", "y")}

    def use(order: str) -> dict[str, Any]:
        rows = [entry(1, record=i, process_group=(n, n), pg_id=ord(n)) for i, n in enumerate(order)]
        return dump(rows, pg_config=table)

    (origin,) = judge({0: use("xy"), 1: use("yx")}).origins
    assert (origin.kind, origin.ranks, origin.among) == (Kind.CYCLE, (), (0, 1))


def test_the_chain_can_be_read_hop_by_hop() -> None:
    """3 waits on b for 2, which waits on the world for 1, which has not issued it."""
    pair = {"0": PAIRS["0"], "b": PAIRS["b"]}
    world = {"0": PAIRS["0"]}
    dumps = {
        0: dump([entry(1, record=1)], pg_config=world),
        1: dump([], pg_config=world, pg_status=status(0, 0)),
        2: dump([entry(1, record=1), on("b", 2)], pg_config=pair),
        3: dump([on("b", 1), entry(1, record=2)], pg_config=pair),
    }
    (origin,) = judge(dumps).origins
    assert (origin.kind, origin.ranks) == (Kind.STUCK_BEFORE_COLLECTIVE, (1,))
    assert [(hop.rank, hop.group.name, hop.held_by) for hop in origin.chain] == [(3, "b", (2,)), (2, "0", (1,))]


@pytest.mark.parametrize("shift", [-3, -2, -1, 1, 2, 3])
def test_skips_and_extras_are_read_from_the_shift_of_what_follows(shift: int) -> None:
    """All members run the same sizes in turn; rank 2 is `shift` operations ahead of (or behind) its peers."""
    sizes = [(7 * n) % 11 + 1 for n in range(40)]

    def run(rank: int) -> list[Entry]:
        mine = list(sizes)
        if rank == 2:
            mine[10:10] = [99] * max(shift, 0)
            del mine[10 : 10 + max(-shift, 0)]
        rows = [(n + 1, [[mine[n]]]) for n in range(30)]
        return [(completed if seq <= 10 else entry)(seq, input_sizes=size, output_sizes=size) for seq, size in rows]

    (origin,) = judge({rank: dump(run(rank), world=5) for rank in range(5)}).origins
    expected = {-1: Kind.MISSING_COLLECTIVE, 1: Kind.EXTRA_COLLECTIVE}.get(shift, Kind.UNEVEN_ITERATIONS)
    assert (origin.kind, origin.ranks, origin.seq) == (expected, (2,), 11)


def test_a_launch_of_several_collectives_is_one_unit() -> None:
    """Inner operations stay `scheduled` for ever; only the closing entry has a state, and no sizes."""

    def launch(seq: int, record: int, done: bool) -> list[Entry]:
        inner = [entry(seq, "_allgather_base", record=record + i) for i in range(2)]
        nothing: dict[str, Any] = {"input_sizes": [], "output_sizes": []}
        return [*inner, (completed if done else entry)(seq, "ALLGATHER_coalesced", record=record + 2, **nothing)]

    healthy = [*launch(1, 0, True), *launch(2, 3, True)]
    assert judge({rank: dump(healthy) for rank in range(2)}).waiting == ()
    hung = [*launch(1, 0, True), *launch(2, 3, False)]
    assert named(judge({0: dump(hung), 1: dump(hung[:3])})) == [(Kind.STUCK_BEFORE_COLLECTIVE, (1,))]


def test_an_operation_retired_but_not_completed_has_failed_and_still_waits() -> None:
    dumps = {rank: dump([completed(1), entry(2, retired=True)], world=3) for rank in range(2)}
    dumps[2] = dump([completed(1)], world=3)
    assert named(judge(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (2,))]


def test_no_dump_at_all() -> None:
    analysis = judge({})
    assert analysis.origins == ()
    assert analysis.coverage.dumps == 0


def test_the_host_in_the_launch_call_of_the_only_rank_that_dumped() -> None:
    analysis = judge({0: dump([completed(1), entry(2)], world=2, pg_status=status(1, 1))})
    assert named(analysis) == [(Kind.IN_LAUNCH, (0,))]


def test_gloo_counts_a_failed_operation_as_done() -> None:
    """Dumped after the timeout: ranks 0 to 2 have operation 2 retired, which rank 3 never issued."""
    rows = [entry(n, profiling_name="gloo:all_reduce", retired=True) for n in (1, 2)]
    dumps = {rank: dump(rows if rank != 3 else rows[:1], world=4) for rank in range(4)}
    analysis = judge(dumps)
    assert analysis.origins == ()
    assert [(row.deciding, row.seq) for row in analysis.undecided] == [((3,), 2)]


def test_a_lone_rank_ahead_of_all_may_be_wrong_or_early() -> None:
    """Nothing is open on the seven others: they may be done, held up on their hosts, or about to come."""
    analysis = analyse(
        load_blobs(blobs({r: dump([completed(1), entry(2)][: 1 + (r == 3)], world=8) for r in range(8)}))
    )
    assert analysis.origins == ()
    assert [row.deciding for row in analysis.undecided] == [(3,)]
    assert "the stacks of rank 3 would decide" in as_text(analysis)


def test_a_moment_at_which_all_groups_are_within_an_operation_is_a_stall_only_where_the_job_stands() -> None:
    pairs = {rank: "[0, 1]" if rank < 2 else "[2, 3]" for rank in range(4)}
    config = {rank: {"0": {"name": "0", "desc": "mesh_tp", "ranks": pair}} for rank, pair in pairs.items()}
    loaded = load_blobs(blobs({r: dump([completed(1), entry(2)], pg_config=config[r]) for r in range(4)}))
    running = analyse(loaded)
    assert running.origins == ()
    assert running.motion is not None
    assert "second snapshot" in running.motion
    standing = analyse(loaded, still=True)
    assert [(origin.kind, origin.among) for origin in standing.origins] == [
        (Kind.TRANSPORT_STALL, (0, 1)),
        (Kind.TRANSPORT_STALL, (2, 3)),
    ]


def test_unequal_counters_of_a_pipeline_without_open_operations_are_no_fault() -> None:
    """A dump of active operations when none is: the middle stages make twice as many transfers as the ends."""
    counted = {0: 4, 1: 8, 2: 8, 3: 4}
    analysis = judge({r: dump([], world=4, pg_status={"0": status(n, n)}) for r, n in counted.items()})
    assert analysis.origins == ()
    assert analysis.undecided == ()


def test_a_rank_that_has_issued_nothing_at_all_is_told_by_its_counters() -> None:
    """The first collective of the job; the recorder counts from -1, and the ring of rank 2 is empty."""
    dumps = {rank: dump([entry(1, record=0)], world=4, pg_status=status(1, -1)) for rank in range(4)}
    dumps[2] = dump([], world=4, pg_status=status(-1, -1))
    analysis = judge(dumps)
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (2,))]
    assert not any("active operations only" in note for note in analysis.coverage.notes)


def test_the_first_use_of_a_group_is_told_by_its_counters() -> None:
    table = {n: {"name": n, "desc": n, "ranks": "[0, 1, 2]"} for n in ("0", "1")}

    def rank(first_use: int) -> dict[str, Any]:
        rows = [completed(n, record=5000 + n) for n in range(1000, 1010)]
        rows += [entry(1, record=6010, process_group=("1", "ckpt"), pg_id=1)] * (first_use > 0)
        return dump(rows, pg_config=table, pg_status={**status(1009, 1009), "1": status(first_use, -1)["0"]})

    assert named(judge({0: rank(1), 1: rank(-1), 2: rank(1)})) == [(Kind.STUCK_BEFORE_COLLECTIVE, (1,))]


def test_the_first_launch_of_a_group_that_does_not_return() -> None:
    dumps = {rank: dump([entry(1, record=0)], world=3, pg_status=status(1, -1)) for rank in range(3)}
    dumps[1]["pg_status"] = status(-1, -1)
    assert named(judge(dumps)) == [(Kind.IN_LAUNCH, (1,))]


def test_a_counter_that_a_recorder_never_moves_tells_nothing() -> None:
    dumps = {rank: dump([completed(1), entry(2)], world=3, pg_status=status(-1, -1)) for rank in range(2)}
    dumps[2] = dump([completed(1)], world=3, pg_status=status(-1, -1))
    assert named(judge(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (2,))]


def gloo(seq: int, record: int, group: str, *, done: bool = True) -> Entry:
    desc = {"0": "default_pg"}.get(group, f"mesh_{group}")
    return entry(
        seq,
        record=record,
        process_group=(group, desc),
        pg_id=ord(group),
        profiling_name="gloo:all_reduce",
        retired=done,
    )


def with_subgroups(absent_from_a: int, *, world_waits: bool) -> dict[int, dict[str, Any]]:
    """Even ranks wait in a subgroup that `absent_from_a`, its fourth member, never used; gloo lists no members."""
    dumps = {}
    for rank in range(8):
        rows = [gloo(1, 0, "0"), gloo(2, 1, "0")]
        if rank % 2:
            rows += [gloo(1, 2, "b"), *([gloo(3, 3, "0", done=False)] if world_waits else [])]
        elif rank != absent_from_a:
            rows.append(gloo(1, 2, "a", done=False))
        table = {"": {"name": "", "desc": "", "ranks": "[]"}}
        dumps[rank] = dump(rows, pg_config=table, comm_lib_version="", pg_status={})
    return dumps


def test_members_known_from_use_alone_are_not_all_that_a_group_has() -> None:
    analysis = judge(with_subgroups(6, world_waits=True))
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (6,))]
    assert analysis.origins[0].explains.ranks == analysis.origins[0].explains.waiting == 7


def test_a_rank_that_may_be_a_member_is_not_accused_for_that() -> None:
    analysis = judge(with_subgroups(6, world_waits=False))
    assert analysis.origins == ()
    (open_part,) = analysis.undecided
    assert 6 in open_part.deciding


def test_a_subgroup_whose_other_ranks_have_groups_of_the_same_purpose_is_whole() -> None:
    def rank(number: int) -> dict[str, Any]:
        name = "1" if number < 2 else "2"
        own = entry(1, record=1, process_group=(name, "mesh_tp"), profiling_name="gloo:all_reduce", retired=number >= 2)
        return dump([gloo(1, 0, "0"), own], pg_config={}, comm_lib_version="")

    (origin,) = judge({number: rank(number) for number in range(4)}).origins
    assert (origin.kind, origin.among) == (Kind.TRANSPORT_STALL, (0, 1))


UNNAMED: dict[str, Any] = {"profiling_name": ""}


def test_an_unnamed_newest_entry_is_no_other_backend() -> None:
    """Operation 5 timed out: retired, and not complete. That is no end, as it would be with gloo."""
    rows = [*(completed(n) for n in range(1, 5)), entry(5, retired=True)]
    dumps = {rank: dump([*rows, entry(6, **UNNAMED)] if rank != 3 else rows, world=4) for rank in range(4)}
    (origin,) = judge(dumps).origins
    assert (origin.kind, origin.seq, origin.ranks) == (Kind.TRANSPORT_STALL, 5, ())


@pytest.mark.parametrize("unnamed", [False, True])
def test_an_unknown_backend_that_uses_states_has_them(unnamed: bool) -> None:
    name: dict[str, Any] = {"profiling_name": "foo:all_reduce"}
    rows = [*(completed(n, **name) for n in range(1, 5)), entry(5, retired=True, **name)]
    rows += [entry(6, **UNNAMED)] * unnamed
    dumps = {rank: dump(rows if rank != 3 else rows[:4], world=4) for rank in range(4)}
    assert named(judge(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (3,))]
