"""Sends and receives that do not find each other, or that differ; what is one fault comes out once."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from handwritten import Entry, blobs, completed, dump, entry

from oncall.flight_recorder import Analysis, DumpSet, Kind, Pace, analyse, compare, load_blobs
from oncall.flight_recorder.listing import list_entries

HALF: dict[str, Any] = {"input_dtypes": ["Half"], "output_dtypes": ["Half"]}


def world(seq: int, record: int, *, done: bool = False) -> Entry:
    return (completed if done else entry)(seq, record=record)


def pipe(number: int, record: int, name: str, *, done: bool = False, **changed: Any) -> Entry:
    """A plain send or receive in the pipeline's group."""
    group: dict[str, Any] = {"process_group": ("1", "pp"), "pg_id": 1}
    return (completed if done else entry)(0, name, record=record, p2p_seq_id=number, is_p2p=True, **group, **changed)


def from_any(seq: int, record: int) -> Entry:
    return entry(seq, record=record, profiling_name="nccl2:recv 0<-?", is_p2p=True, p2p_seq_id=1)


def loaded(rows: Mapping[int, Sequence[Entry]]) -> DumpSet:
    ranks = str(sorted(rows))
    table = {name: {"name": name, "desc": desc, "ranks": ranks} for name, desc in (("0", "default_pg"), ("1", "pp"))}
    return load_blobs(blobs({rank: dump(own, pg_config=table) for rank, own in rows.items()}))


def judge(rows: Mapping[int, Sequence[Entry]]) -> Analysis:
    return analyse(loaded(rows))


def found(analysis: Analysis) -> list[tuple[Kind, tuple[int, ...], tuple[int, ...]]]:
    return [(origin.kind, origin.ranks, tuple(sorted(origin.among))) for origin in analysis.origins]


PAST = [world(n, n, done=True) for n in range(1, 6)]


def test_a_receive_from_any_source_is_no_collective() -> None:
    """It carries the number of the last collective, which all finished; who should send is not told."""
    analysis = judge({rank: [*PAST, *([from_any(5, 6)] if rank == 0 else [])] for rank in range(4)})
    assert analysis.origins == ()
    assert [row.deciding for row in analysis.undecided] == [(1, 2, 3)]
    assert "any source" in analysis.undecided[0].reason


def test_a_receive_from_any_source_while_all_others_are_elsewhere() -> None:
    """Rank 0 received once too often, or another left out its send: no collective was skipped."""
    analysis = judge({rank: [*PAST, from_any(5, 6) if rank == 0 else world(6, 7)] for rank in range(4)})
    assert found(analysis) == [(Kind.P2P_MISMATCH, (), (0, 1, 2, 3))]
    assert analysis.origins[0].explains.ranks == 4


def test_a_send_that_a_receive_from_any_source_takes() -> None:
    send = entry(5, "send 1->0", record=6, p2p_seq_id=1, is_p2p=True)
    analysis = judge({0: [*PAST, from_any(5, 6)], 1: [*PAST, send], 2: [*PAST, world(6, 7)], 3: [*PAST, world(6, 7)]})
    assert found(analysis) == [(Kind.TRANSPORT_STALL, (), (0, 1))]
    assert analysis.origins[0].explains.ranks == 4


def test_who_may_send_but_waits_for_another_leads_to_that_one() -> None:
    """Ranks 1 and 2 wait for 3, which has issued nothing: that explains the receive as well."""
    analysis = judge(
        {rank: [*PAST, *([from_any(5, 6)] if rank == 0 else [world(6, 7)] * (rank < 3))] for rank in range(4)}
    )
    assert (Kind.STUCK_BEFORE_COLLECTIVE, (3,), (3,)) in found(analysis)
    assert analysis.undecided == ()


def test_a_receive_from_any_source_is_listed_as_such() -> None:
    lines = list(list_entries(loaded({0: [*PAST, from_any(5, 6)], 1: PAST}), [0], None))
    assert "p2p 1 ?->?  recv" in lines[-1]


START = world(1, 0, done=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([pipe(1, 1, "send 0->1"), world(2, 2)], [world(2, 1)]),  # rank 1 left out its receive
        ([pipe(1, 1, "recv 0<-1"), world(2, 2)], [world(2, 1)]),
        ([pipe(1, 1, "send 0->1")], [pipe(1, 1, "send 1->0")]),
        ([pipe(1, 1, "recv 0<-1")], [pipe(1, 1, "recv 1<-0")]),
    ],
)
def test_a_send_or_receive_without_its_other_end(first: list[Entry], second: list[Entry]) -> None:
    assert found(judge({0: [START, *first], 1: [START, *second]})) == [(Kind.P2P_MISMATCH, (), (0, 1))]


def test_both_ends_there_but_in_opposite_orders_are_a_cycle() -> None:
    first = [START, pipe(1, 1, "send 0->1"), pipe(2, 2, "recv 0<-1")]
    second = [START, pipe(1, 1, "send 1->0"), pipe(2, 2, "recv 1<-0")]
    assert found(judge({0: first, 1: second})) == [(Kind.CYCLE, (), (0, 1))]


def test_who_waits_for_a_receive_that_was_left_out_has_skipped_nothing() -> None:
    """Rank 1 left out its receive; the host of rank 0 blocks in the send and comes to no collective."""
    rows = {rank: [START, world(2, 1)] for rank in range(4)}
    rows[0] = [START, pipe(1, 1, "send 0->1")]
    analysis = judge(rows)
    assert found(analysis) == [(Kind.P2P_MISMATCH, (), (0, 1))]
    assert analysis.origins[0].explains.ranks == 4


@pytest.mark.parametrize("changed", [{"input_sizes": [[60]]}, HALF])
def test_two_ends_that_differ_are_one_fault(changed: dict[str, Any]) -> None:
    rows = {0: [START, pipe(1, 1, "send 0->1")], 1: [START, pipe(1, 1, "recv 1<-0", **changed)]}
    analysis = judge(rows)
    assert found(analysis) == [(Kind.P2P_MISMATCH, (), (0, 1))]
    assert analysis.origins[0].explains.ranks == analysis.origins[0].explains.waiting == 2


@pytest.mark.parametrize(
    ("changed", "kind"), [({"input_sizes": [[60]]}, Kind.SIZE_MISMATCH), (HALF, Kind.DTYPE_MISMATCH)]
)
def test_the_end_that_departs_from_what_it_always_moved_is_named(changed: dict[str, Any], kind: Kind) -> None:
    def run(name: str, last: dict[str, Any]) -> list[Entry]:
        return [START, pipe(1, 1, name, done=True), pipe(2, 2, name, done=True), pipe(3, 3, name, **last)]

    assert found(judge({0: run("send 0->1", {}), 1: run("recv 1<-0", changed)})) == [(kind, (1,), (1,))]


CHAIN = {
    0: [START, pipe(1, 1, "send 0->1")],
    1: [START, pipe(1, 1, "recv 1<-0")],
    2: [START, pipe(1, 1, "recv 2<-1")],
    3: [START, pipe(1, 1, "recv 3<-2")],
}


def test_one_dead_link_is_one_operation() -> None:
    """The link from 0 to 1 is dead; the stages behind it wait."""
    analysis = judge(CHAIN)
    assert found(analysis) == [(Kind.TRANSPORT_STALL, (), (0, 1))]
    assert analysis.origins[0].explains.ranks == analysis.origins[0].explains.waiting == 4
    assert compare(loaded(CHAIN), loaded(CHAIN)).pace is Pace.STUCK
    assert found(analyse(loaded(CHAIN), still=True)) == found(analysis)


def test_two_links_at_once_are_what_a_running_pipeline_looks_like() -> None:
    links = {0: "send 0->1", 1: "recv 1<-0", 2: "send 2->3", 3: "recv 3<-2"}
    rows = {rank: [START, pipe(1, 1, name)] for rank, name in links.items()}
    analysis = judge(rows)
    assert analysis.origins == ()
    assert analysis.motion is not None
    assert found(analyse(loaded(rows), still=True)) == [
        (Kind.TRANSPORT_STALL, (), (0, 1)),
        (Kind.TRANSPORT_STALL, (), (2, 3)),
    ]


def test_a_dump_of_active_operations_lists_a_batch_that_is_over() -> None:
    """Of a batch of one the closing entry is left out once it is complete: it looks like a send that never ends."""
    rows = {0: [pipe(1, 90, "send 0->1")], 1: [pipe(1, 90, "recv 1<-0")]}
    analysis = judge(rows)
    assert analysis.origins == ()
    assert analysis.motion is not None
    assert found(analyse(loaded(rows), still=True)) == [(Kind.TRANSPORT_STALL, (), (0, 1))]
