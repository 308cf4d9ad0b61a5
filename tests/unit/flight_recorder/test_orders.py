"""The order in which ranks use several groups: who is out of step with the others, and who only crossed them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from handwritten import Entry, blobs, completed, dump, entry

from oncall.flight_recorder import Analysis, Kind, analyse, load_blobs

PLACES = {"tp": ({0: "3", 1: "3", 2: "4", 3: "4"}, {"3": [0, 1], "4": [2, 3]})}
PLACES["dp"] = ({0: "1", 1: "2", 2: "1", 3: "2"}, {"1": [0, 2], "2": [1, 3]})

Call = tuple[str, str, int]
"""Purpose of the group, operation, elements."""
STEP: list[Call] = [("tp", "_allgather_base", 64), ("dp", "all_reduce", 512), ("tp", "_reduce_scatter_base", 64)]
STEP.append(("dp", "all_reduce", 4096))


def judge(dumps: Mapping[int, dict[str, Any]]) -> Analysis:
    return analyse(load_blobs(blobs(dict(dumps))))


def issue(rank: int, calls: Sequence[Call], described: bool, over: int) -> Iterator[Entry]:
    """The entries of a rank that issues `calls`, the first `over` of which have ended."""
    seqs: dict[str, int] = {}
    for record, (purpose, op, size) in enumerate(calls):
        name = PLACES[purpose][0][rank]
        seqs[name] = seqs.get(name, 0) + 1
        sizes: dict[str, Any] = {"input_sizes": [[size]], "output_sizes": [[size]]}
        label = (name, purpose if described else "undefined")
        make = completed if record < over else entry
        yield make(seqs[name], op, record=record, process_group=label, pg_id=int(name), **sizes)


def job(changed: Sequence[Call], over: Sequence[int], described: bool) -> dict[int, dict[str, Any]]:
    """Three steps of TP 2 x DP 2; in the second one rank 1 calls what is `changed`. `over` is how far each rank got."""
    dumps = {}
    for rank in range(4):
        table = {
            name: {"name": name, "desc": purpose if described else "undefined", "ranks": str(ranks)}
            for purpose in ("dp", "tp")
            for name, ranks in PLACES[purpose][1].items()
            if rank in ranks
        }
        calls = [*STEP, *(changed if rank == 1 else STEP), *STEP]
        dumps[rank] = dump(list(issue(rank, calls, described, over[rank])), pg_config=table)
    return dumps


@pytest.mark.parametrize("described", [True, False])
@pytest.mark.parametrize(
    ("changed", "over", "kind"),
    [
        ([*STEP[:2], STEP[3]], (6, 7, 7, 8), Kind.MISSING_COLLECTIVE),
        ([*STEP[:3], *STEP[2:]], (8, 7, 8, 7), Kind.EXTRA_COLLECTIVE),
        ([*STEP[:2], ("tp", "_reduce_scatter_base", 60), STEP[3]], (6, 6, 7, 7), Kind.SIZE_MISMATCH),
    ],
)
def test_groups_of_one_purpose_are_told_by_their_place_where_nothing_describes_them(
    changed: list[Call], over: tuple[int, ...], kind: Kind, described: bool
) -> None:
    """Rank 1 departs from the program in a group of two, so only ranks of other groups tell who is wrong."""
    (origin,) = judge(job(changed, over, described)).origins
    assert (origin.kind, origin.ranks) == (kind, (1,))
    assert f"(group {'tp' if described else '3'}, seq" in origin.says


def both(order: str, over: int) -> dict[str, Any]:
    """A rank that uses the groups A and B, of four ranks each, in this order; the first `over` operations ended."""
    table = {name: {"name": name, "desc": name, "ranks": "[0, 1, 2, 3]"} for name in "AB"}
    rows = []
    for record, name in enumerate(order):
        seq = order[: record + 1].count(name)
        make = completed if record < over else entry
        rows.append(make(seq, record=record, process_group=(name, name), pg_id=ord(name)))
    return dump(rows, pg_config=table)


@pytest.mark.parametrize(("usual", "crossed"), [("ABAB", "ABBA"), ("ABABAB", "ABBAAB"), ("ABAABAB", "ABBAAAB")])
def test_who_issued_all_that_the_others_did_has_skipped_nothing(usual: str, crossed: str) -> None:
    """Rank 1 alone uses the groups the other way round, once."""
    (origin,) = judge({rank: both(crossed if rank == 1 else usual, 2) for rank in range(4)}).origins
    assert (origin.kind, origin.ranks) == (Kind.CYCLE, ())
    assert sorted(origin.among) == [0, 1, 2, 3]


@pytest.mark.parametrize(("usual", "found"), [("ABABABAB", "ABBABAB"), ("ABABABAB", "ABBABA")])
def test_who_is_never_in_step_again_has_skipped_one(usual: str, found: str) -> None:
    """Rank 1 left out the second use of A: its later ones bear the numbers of those that its peers issue before."""
    (origin,) = judge({rank: both(found if rank == 1 else usual, 2) for rank in range(4)}).origins
    assert (origin.kind, origin.ranks) == (Kind.MISSING_COLLECTIVE, (1,))


@pytest.mark.parametrize("described", [True, False])
def test_who_used_another_group_belongs_to_none_of_the_same_purpose_if_that_is_told(described: bool) -> None:
    """Gloo lists no members: ranks 0 and 1 wait in one group, 2 and 3 have used another and wait in nothing."""

    def gloo(name: str, desc: str, record: int, done: bool) -> Entry:
        label = {"process_group": (name, desc), "pg_id": int(name), "profiling_name": "gloo:all_reduce"}
        return entry(1, record=record, retired=done, **label)

    desc = "mesh_tp" if described else "undefined"
    dumps = {}
    for rank in range(4):
        rows = [gloo("0", "default_pg", 0, done=True), gloo("1" if rank < 2 else "2", desc, 1, done=rank >= 2)]
        dumps[rank] = dump(rows, pg_config={}, comm_lib_version="")
    analysis = judge(dumps)
    assert [origin.kind for origin in analysis.origins] == [Kind.TRANSPORT_STALL] * described
    assert [row.deciding for row in analysis.undecided] == [(2, 3)] * (not described)
