"""Which rank wrote a file: by names of any form, and never against what the file says of itself."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from handwritten import blobs, completed, dump, entry

from oncall.flight_recorder import Kind, analyse, load_blobs

WAITING = dump([completed(1), entry(2)])
IDLE = dump([completed(1)])


def tables(rank: int) -> dict[str, Any]:
    """The groups of a rank in a job of two nodes with two ranks each: the world, tp within a node, dp across."""
    node, local = divmod(rank, 2)
    rows = {"default_pg": [0, 1, 2, 3], "tp": [2 * node, 2 * node + 1], "dp": [local, local + 2]}
    return {str(i): {"name": str(i), "desc": desc, "ranks": str(own)} for i, (desc, own) in enumerate(rows.items())}


def stuck(rank: int, culprit: int) -> bytes:
    rows = [completed(1), entry(2)][: 1 if rank == culprit else 2]
    return pickle.dumps(dump(rows, pg_config=tables(rank)))


@pytest.mark.parametrize(
    "name",
    [
        "rank_{}".format,
        "_dump_{}".format,
        "{}".format,
        "nccl_trace_rank_node02_{}".format,
        "node-3/nccl_trace_rank_{}".format,
        "rank_{:05}.pkl.gz".format,
        "trace.{}.zst".format,
        "rank_{}_20250101120000".format,
        lambda rank: f"trace-r{rank}-pid{4321 + 7 * rank}",
        "rank_{}_node1".format,
        "dump_{}_of_4".format,
        "nccl_trace_rank_{}.node07".format,
        "2025-01-01/rank{}.dump".format,
        "rank{}.bin".format,
        "rank_{}/trace".format,
        lambda rank: f"job77_local_rank_{rank % 2}_rank_{rank}",
        lambda rank: f"pid{900 + rank}.trace.{rank}.host8",
    ],
)
def test_a_name_of_any_form_tells_the_rank(name: Callable[[int], str]) -> None:
    dumps = {rank: dump([completed(1), entry(2)][: 1 if rank == 3 else 2], world=4) for rank in range(4)}
    loaded = load_blobs(blobs(dumps, name))
    assert {rank: loaded.dumps[rank].source for rank in loaded.dumps} == {rank: name(rank) for rank in range(4)}
    assert [o.ranks for o in analyse(loaded).origins] == [(3,)]


@pytest.mark.parametrize(
    ("prefix", "name", "rank"),
    [
        ("/var/tmp/job7_rank_", "job7_rank_3", 3),
        ("rank_", "rank_2_node1", 2),
        ("/var/tmp/traces/", "rank_2", 2),
        ("trace_rank_", "trace_rank_node02_1", 1),
        ("job7_rank_", "other_3", None),
    ],
)
def test_a_given_prefix_is_taken_off_first(prefix: str, name: str, rank: int | None) -> None:
    loaded = load_blobs([(name, pickle.dumps(dump([entry(1)], world=4)))], prefix=prefix)
    assert list(loaded.dumps) == ([] if rank is None else [rank])
    assert [("no rank" in refused.reason) for refused in loaded.refused] == ([True] if rank is None else [])


def test_a_log_beside_the_dumps_is_no_rank() -> None:
    files = [*blobs({0: WAITING, 1: IDLE}), ("rank_1.log", b"text"), ("part7.txt", b"text"), ("README", b"text")]
    loaded = load_blobs(files)
    assert sorted(loaded.dumps) == [0, 1]
    assert {refused.source: refused.rank for refused in loaded.refused} == {
        "rank_1.log": None,
        "part7.txt": None,
        "README": None,
    }


def test_equal_names_in_folders_are_told_apart_by_the_groups_of_the_dump() -> None:
    files = [(f"n{1 - rank // 2}/rank_{rank % 2}", stuck(rank, culprit=2)) for rank in range(4)]
    dumps = load_blobs(files)
    assert sorted(dumps.dumps) == [0, 1, 2, 3]
    assert [o.ranks for o in analyse(dumps).origins] == [(2,)]


def test_local_ranks_of_one_node_are_ranks_of_the_job() -> None:
    """Files of the second node alone: their groups say that they are ranks 2 and 3."""
    loaded = load_blobs([(f"rank_{rank - 2}", stuck(rank, culprit=3)) for rank in (2, 3)])
    assert list(loaded.dumps) == [2, 3]
    assert [(o.kind, o.ranks) for o in analyse(loaded).origins] == [(Kind.STUCK_BEFORE_COLLECTIVE, (3,))]
    assert any("groups" in note for note in loaded.notes)


def test_a_file_without_a_dump_is_of_the_rank_that_its_folder_has_there() -> None:
    files = [("node0/rank_0", stuck(0, 3)), ("node0/rank_1", b""), ("node1/rank_0", b""), ("node1/rank_1", stuck(3, 3))]
    loaded = load_blobs(files)
    assert list(loaded.dumps) == [0, 3]
    assert sorted((refused.rank, refused.source) for refused in loaded.refused) == [
        (1, "node0/rank_1"),
        (2, "node1/rank_0"),
    ]


def test_folders_of_equal_names_are_counted_through_with_their_empty_files() -> None:
    world = {rank: pickle.dumps(dump([completed(1), entry(2)], world=4)) for rank in range(4)} | {1: b"", 2: b""}
    loaded = load_blobs([(f"node{rank // 2}/rank_{rank % 2}", content) for rank, content in world.items()])
    assert list(loaded.dumps) == [0, 3]
    assert any("counted" in note for note in loaded.notes)


def test_a_name_that_the_dump_excludes_accuses_nobody() -> None:
    """By its groups the file is of rank 2 or 3; by its name of rank 7. Nothing tells which of the two it is."""
    world = {"0": {"name": "0", "desc": "default_pg", "ranks": "[2, 3]"}}
    loaded = load_blobs([*blobs({2: dump([entry(1)], pg_config=world)}), ("rank_7", pickle.dumps(IDLE))])
    assert list(loaded.dumps) == [2]
    (refused,) = loaded.refused
    assert (refused.source, refused.rank) == ("rank_7", None)
    assert "cannot be told" in refused.reason
    assert analyse(loaded, world_size=8).origins == ()


def test_a_second_file_of_one_rank_is_reported() -> None:
    files = [("a/rank_0", pickle.dumps(WAITING)), ("b/rank_0", pickle.dumps(WAITING)), ("b/rank_1", pickle.dumps(IDLE))]
    dumps = load_blobs(files)
    assert sorted(dumps.dumps) == [0, 1]
    assert ["second dump of rank 0" in refused.reason for refused in dumps.refused] == [True]
