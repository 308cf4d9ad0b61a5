"""Collectives launched together, as a distributed optimizer does: who is inside, who differs, and what is over."""

from collections.abc import Mapping
from typing import Any

import pytest
from handwritten import Entry, blobs, completed, dump, entry

from oncall.flight_recorder import Analysis, Kind, analyse, load_blobs

NOTHING: dict[str, Any] = {"input_sizes": [], "output_sizes": [], "input_dtypes": [], "output_dtypes": []}
CLOSING = "ALLGATHER_coalesced"


def launch(seq: int, record: int, *, done: bool = False, parts: int = 3, closing: str | None = CLOSING) -> list[Entry]:
    """The parts, which stay `scheduled` for ever, and the closing entry, which has the state."""
    rows = [entry(seq, "_allgather_base", record=record + i) for i in range(parts)]
    if closing is not None:
        rows.append((completed if done else entry)(seq, closing, record=record + parts, **NOTHING))
    return rows


def judge(dumps: Mapping[int, dict[str, Any]]) -> Analysis:
    return analyse(load_blobs(blobs(dict(dumps))))


def named(analysis: Analysis) -> list[tuple[Kind, tuple[int, ...]]]:
    return [(origin.kind, origin.ranks) for origin in analysis.origins]


def counters(enqueued: int, finished: int) -> dict[str, Any]:
    return {"0": {"last_enqueued_collective": enqueued, "last_completed_collective": finished}}


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("added", [1, 2])
def test_a_host_that_still_adds_to_a_launch_is_inside_of_it(added: int, counted: bool) -> None:
    """Rank 3 stopped between the parts of launch 3, which its peers closed; that is no other operation."""
    before = [completed(1, record=0), *launch(2, 1, done=True)]
    dumps = {}
    for rank in range(4):
        own = launch(3, 5) if rank != 3 else launch(3, 5, parts=added, closing=None)
        status = counters(3 if rank != 3 else 2, 2) if counted else {}
        dumps[rank] = dump([*before, *own], world=4, pg_status=status)
    (origin,) = judge(dumps).origins
    assert (origin.kind, origin.ranks, origin.seq) == (Kind.IN_LAUNCH, (3,), 3)
    assert origin.explains.ranks == origin.explains.waiting == 4


def test_one_that_went_on_did_not_launch_several() -> None:
    """Rank 2 issued a single all-gather in place of the launch, and the next operation after it."""
    dumps = {}
    for rank in range(4):
        own = launch(1, 0) if rank != 2 else [entry(1, "_allgather_base", record=0)]
        dumps[rank] = dump([*own, entry(2, record=9)], world=4)
    assert named(judge(dumps)) == [(Kind.TYPE_MISMATCH, (2,))]


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"input_sizes": [[60]]}, Kind.SIZE_MISMATCH),
        ({"input_dtypes": ["BFloat16"], "output_dtypes": ["BFloat16"]}, Kind.DTYPE_MISMATCH),
    ],
)
def test_one_part_that_differs_is_found(changed: dict[str, Any], kind: Kind) -> None:
    dumps = {}
    for rank in range(4):
        rows = launch(1, 0)
        if rank == 1:
            rows[1].update(changed)
        dumps[rank] = dump(rows, world=4)
    assert named(judge(dumps)) == [(kind, (1,))]


def test_one_call_on_many_tensors_has_sizes_of_its_own() -> None:
    def gather(rows: int) -> list[Entry]:
        return [entry(1, "all_gather_into_tensor_coalesced", input_sizes=[[rows], [64]])]

    dumps = {rank: dump(gather(64 if rank != 1 else 60), world=4) for rank in range(4)}
    assert named(judge(dumps)) == [(Kind.SIZE_MISMATCH, (1,))]


def test_a_ring_that_lost_the_parts_tells_no_difference() -> None:
    dumps = {rank: dump(launch(1, 0)[3 if rank == 1 else 0 :], world=4) for rank in range(4)}
    assert named(judge(dumps)) == [(Kind.TRANSPORT_STALL, ())]


@pytest.mark.parametrize("closing", [CLOSING, "coalesced"])
def test_a_launch_in_a_group_with_sends_closes_no_batch_of_them(closing: str) -> None:
    """The number of the last batch stays with all later entries of the group; everything is over."""
    dumps = {}
    for rank, name in enumerate(("send 0->1", "recv 1<-0")):
        batch = [
            entry(0, name, record=0, p2p_seq_id=1, is_p2p=True),
            completed(0, "coalesced", record=1, p2p_seq_id=1, **NOTHING),
        ]
        later = [{**row, "p2p_seq_id": 1} for row in launch(1, 2, done=True, closing=closing)]
        dumps[rank] = dump([*batch, *later], pg_status=counters(1, 1))
    analysis = judge(dumps)
    assert analysis.waiting == ()
    assert analysis.origins == ()


def test_launches_that_are_over_say_nothing_of_a_send_before_them() -> None:
    """The number of the send stays with all later entries of its group, a hundred of which came to an end."""
    dumps = {}
    for rank in range(2):
        sends = [entry(0, "send 0->1", record=0, p2p_seq_id=1, is_p2p=True)] if rank == 0 else []
        later = [row for seq in range(1, 31) for row in launch(seq, 4 * seq, done=True)]
        dumps[rank] = dump([*sends, *({**row, "p2p_seq_id": len(sends)} for row in later)])
    analysis = judge(dumps)
    assert analysis.waiting == (0,)
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (1,))]


@pytest.mark.parametrize("counted", [True, False])
def test_the_parts_of_what_is_over_are_no_operation_that_nobody_finishes(counted: bool) -> None:
    """A dump of active operations leaves out closing entries of what is over. Only operation 7 of the world is open."""
    table = {name: {"name": name, "desc": desc, "ranks": "[0, 1, 2, 3]"} for name, desc in (("0", "w"), ("1", "dp"))}
    dumps = {}
    for rank in range(4):
        parts = [*launch(1, 100, parts=2, closing=None), *launch(2, 103, parts=2, closing=None)]
        rows = [{**row, "process_group": ("1", "dp"), "pg_id": 1} for row in parts]
        newest = 6 if rank == 2 else 7
        status = {**counters(newest, 6), "1": counters(2, 2)["0"]} if counted else {}
        dumps[rank] = dump([*rows, *([entry(7, record=110)] if rank != 2 else [])], pg_config=table, pg_status=status)
    analysis = judge(dumps)
    assert analysis.waiting == (0, 1, 3)
    if counted:
        assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (2,))]
    else:  # what rank 2 does not list it may have completed
        assert analysis.origins == ()
        (undecided,) = analysis.undecided
        assert undecided.deciding == (2,)
        assert "no counters" in undecided.reason
