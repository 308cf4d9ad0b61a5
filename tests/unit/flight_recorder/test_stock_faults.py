"""Dumps on which torchfrtrace 2.13.0 crashes, stays silent or accuses the innocent: ours must get each right."""

import json
import pickle
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from handwritten import Entry, blobs, completed, dump, entry

from oncall.flight_recorder import Analysis, Kind, analyse, as_json, load_blobs, load_paths
from oncall.flight_recorder.report import as_text


def judge(dumps: Mapping[int, dict[str, Any]]) -> Analysis:
    return analyse(load_blobs(blobs(dict(dumps))))


def named(analysis: Analysis) -> list[tuple[Kind, tuple[int, ...]]]:
    return [(origin.kind, origin.ranks) for origin in analysis.origins]


def gloo(seq: int, op: str = "all_reduce", group: tuple[str, str] = ("0", "default_pg"), **changed: Any) -> Entry:
    return entry(seq, profiling_name=f"gloo:{op}", process_group=group, **{"retired": True, **changed})


def test_gloo_subgroups_without_a_group_table() -> None:
    dumps = {}
    for rank in range(4):
        own = ("1", "mesh_a") if rank < 2 else ("2", "mesh_b")
        entries = [gloo(1), gloo(1, group=own, record=2, pg_id=1), gloo(2, record=3, retired=rank == 9)]
        if rank == 3:
            entries.pop()
        table = {"": {"name": "", "desc": "", "ranks": "[]"}}
        dumps[rank] = dump(entries, pg_config=table, comm_lib_version="")
    analysis = judge(dumps)
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (3,))]
    assert analysis.origins[0].group is not None
    assert analysis.origins[0].group.inferred
    assert analysis.origins[0].group.ranks == (0, 1, 2, 3)


def test_a_hang_that_everyone_joined_is_not_silence() -> None:
    analysis = judge({rank: dump([completed(1), entry(2, state="started")]) for rank in range(2)})
    assert named(analysis) == [(Kind.TRANSPORT_STALL, ())]
    assert analysis.origins[0].among == (0, 1)
    assert analysis.origins[0].seq == 2


@pytest.mark.parametrize("order", list(permutations(range(4)))[::5])
def test_the_culprit_does_not_depend_on_the_order_of_files(order: tuple[int, ...]) -> None:
    dumps = {r: dump([entry(1, "all_gather" if r == 0 else "all_reduce")], world=4) for r in order}
    assert named(judge(dumps)) == [(Kind.TYPE_MISMATCH, (0,))]


def p2p(record: int, number: int, name: str, **changed: Any) -> Entry:
    return entry(0, name, record=record, p2p_seq_id=number, is_p2p=True, **changed)


def closing(record: int, number: int, **changed: Any) -> Entry:
    nothing: dict[str, Any] = {"input_sizes": [], "input_dtypes": [], "output_sizes": [], "output_dtypes": []}
    return completed(0, "coalesced", record=record, p2p_seq_id=number, **nothing, **changed)


DONE = {"state": "completed", "retired": True}


def test_a_healthy_chain_of_plain_sends() -> None:
    chain: dict[int, list[Entry]] = {rank: [] for rank in range(4)}
    for rank in range(3):
        chain[rank].append(p2p(len(chain[rank]), len(chain[rank]) + 1, f"send {rank}->{rank + 1}", **DONE))
        chain[rank + 1].append(p2p(0, 1, f"recv {rank + 1}<-{rank}", **DONE))
    analysis = judge({rank: dump(rows, world=4) for rank, rows in chain.items()})
    assert analysis.origins == ()
    assert analysis.undecided == ()
    assert analysis.waiting == ()


def test_a_send_whose_receive_was_never_issued() -> None:
    dumps = {
        0: dump([completed(1), p2p(2, 1, "send 0->1")], world=3),
        1: dump([completed(1)], world=3),
        2: dump([completed(1)], world=3),
    }
    assert named(judge(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (1,))]


def test_batched_receive_and_send_agree() -> None:
    dumps = {
        0: dump([p2p(0, 1, "recv 0<-1"), closing(1, 1)]),
        1: dump([p2p(0, 1, "send 1->0"), closing(1, 1)]),
    }
    assert judge(dumps).origins == ()


def test_a_batched_ring_of_two_steps_and_a_collective() -> None:
    dumps = {}
    for rank in range(3):
        rows = []
        for step in (1, 2):
            at = 3 * (step - 1)
            rows += [
                p2p(at, step, f"send {rank}->{(rank + 1) % 3}"),
                p2p(at + 1, step, f"recv {rank}<-{(rank - 1) % 3}"),
            ]
            rows.append(closing(at + 2, step))
        dumps[rank] = dump([*rows, completed(1, record=6, p2p_seq_id=2)], world=3)
    assert judge(dumps).origins == ()
    assert judge(dumps).waiting == ()


def test_another_groups_operation_inside_a_batch_stays() -> None:
    table = {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"},
        "1": {"name": "1", "desc": "other", "ranks": "[0, 1]"},
    }
    other: dict[str, Any] = {"process_group": ("1", "other"), "pg_id": 1}
    dumps = {}
    for rank, name in enumerate(("send 0->1", "recv 1<-0")):
        inner = [p2p(0, 1, name), entry(1, record=1, **other), p2p(2, 1, name), closing(3, 1)]
        dumps[rank] = dump(inner if rank == 0 else [inner[0], *inner[2:]], pg_config=table)
    analysis = judge(dumps)
    assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (1,))]
    assert analysis.origins[0].group is not None
    assert analysis.origins[0].group.name == "1"


def test_a_ring_that_starts_one_batch_later() -> None:
    def batch(record: int, number: int, name: str) -> list[Entry]:
        return [p2p(record, number, name), closing(record + 1, number)]

    sender = [row for n in range(1, 6) for row in batch(2 * n, n, "send 0->1")]
    receiver = [row for n in range(2, 6) for row in batch(2 * n, n, "recv 1<-0")]
    dumps = {0: dump([*sender, completed(7, record=20)]), 1: dump([*receiver, completed(7, record=20)])}
    assert judge(dumps).origins == ()


def test_record_numbers_do_not_line_up_ranks() -> None:
    table = {name: {"name": name, "desc": name, "ranks": ranks} for name, ranks in (("a", "[0, 2]"), ("b", "[1, 3]"))}
    dumps = {}
    for rank in range(4):
        name = "b" if rank % 2 else "a"
        first = 100 if rank % 2 else 0
        rows = [completed(n, record=first + n, process_group=(name, name)) for n in range(1, 5)]
        if rank % 2 == 0:
            rows.append(entry(5, "all_gather" if rank else "all_reduce", record=5, process_group=(name, name)))
        dumps[rank] = dump(rows, pg_config={name: table[name]})
    (origin,) = judge(dumps).origins
    assert origin.kind is Kind.TYPE_MISMATCH
    assert origin.among == (0, 2)
    assert origin.ranks == (), "one against one: nobody is named"


def test_a_wrapped_ring_is_not_a_missing_rank() -> None:
    dumps = {
        0: dump([completed(n, record=n + 500) for n in range(100, 106)]),
        1: dump([completed(n, record=n - 90) for n in range(103, 106)]),
    }
    analysis = judge(dumps)
    assert analysis.origins == ()
    assert analysis.undecided == ()


def test_an_operation_older_than_the_ring_was_issued() -> None:
    waiting = [completed(1), entry(2)]
    ahead = [entry(n, record=n) for n in range(5, 9)]
    analysis = judge({0: dump(waiting), 1: dump(ahead)})
    assert all(origin.kind is not Kind.STUCK_BEFORE_COLLECTIVE for origin in analysis.origins)


class TestOddFiles:
    """One bad file is reported with its reason; the verdict stands on the others."""

    def stuck(self) -> list[tuple[str, bytes]]:
        dumps = {rank: dump([completed(1), entry(2)], world=4) for rank in range(3)}
        return blobs({**dumps, 3: dump([completed(1)], world=4)})

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "empty"),
            (pickle.dumps(dump([completed(1)] * 3))[:90], "cut off"),
            (b'{"weights": [1, 2]}', "not a Flight Recorder dump"),
            (b"PK\x03\x04 something", "not a Flight Recorder dump"),
            (b"\x1f\x8b\x08\x00broken", "cut off"),
        ],
    )
    def test_is_named_with_its_reason(self, content: bytes, reason: str) -> None:
        analysis = analyse(load_blobs([*self.stuck(), ("rank_9", content)]), world_size=4)
        assert named(analysis) == [(Kind.STUCK_BEFORE_COLLECTIVE, (3,))]
        (refused,) = analysis.coverage.refused
        assert refused.rank == 9
        assert reason in refused.reason

    def test_a_dump_without_entries(self) -> None:
        files = [*self.stuck()[:3], ("rank_3", pickle.dumps({"version": "2.10", "pg_config": {}, "pg_status": {}}))]
        analysis = analyse(load_blobs(files))
        assert analysis.origins == ()
        assert [row.deciding for row in analysis.undecided] == [(3,)]

    def test_versions_may_differ(self) -> None:
        dumps = {0: dump([completed(1), entry(2)]), 1: dump([completed(1)])}
        dumps[1]["version"] = "2.9"
        dumps[1]["nccl_version"] = dumps[1].pop("comm_lib_version")
        assert named(judge(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (1,))]

    def test_host_in_the_name_and_equal_names_in_folders(self, tmp_path: Path) -> None:
        files = self.stuck()
        for rank, (_, content) in enumerate(files):
            folder = tmp_path / f"node{rank // 2:02d}"
            folder.mkdir(exist_ok=True)
            (folder / f"nccl_trace_rank_node{rank // 2:02d}_{rank % 2}").write_bytes(content)
        dumps = load_paths([tmp_path])
        assert sorted(dumps.dumps) == [0, 1, 2, 3]
        assert named(analyse(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (3,))]


@pytest.mark.parametrize(
    "name",
    [
        "nccl2:all_reduce",
        "",
        "nccl:recv 0<-?",
        "nccl:allgather_coalesced",
        "nccl:all_reduce_sparse",
        "ucc:xyz",
        ":",
        "→",
    ],
)
def test_an_unknown_operation_name_does_not_end_the_run(name: str) -> None:
    dumps = {r: dump([completed(1, profiling_name=name), completed(2), entry(3)], world=3) for r in range(2)}
    dumps[2] = dump([completed(1, profiling_name=name), completed(2)], world=3)
    assert named(judge(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (2,))]


class Bomb:
    """Pickles to a call; unpickled by a careless reader it leaves a file behind."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


def test_nothing_in_a_dump_is_executed(tmp_path: Path) -> None:
    target = tmp_path / "executed"
    hostile = pickle.dumps({**dump([completed(1)]), "version": Bomb(target)})
    code = dump([completed(1)])
    code["pg_config"]["0"]["ranks"] = f"__import__('pathlib').Path({str(target)!r}).touch()"
    analysis = analyse(load_blobs([("rank_0", hostile), ("rank_1", pickle.dumps(code))]))
    assert not target.exists()
    (refused,) = analysis.coverage.refused
    assert refused.rank == 0
    assert "refused" in refused.reason


def test_terminal_escapes_are_neutralised() -> None:
    frames = [{"name": "evil\x1b[2J\x1b]0;owned\x07", "filename": "/w/train.py\r\u202e", "line": 3}]
    group = ("0", "default\x1b[31m")
    dumps = {0: dump([completed(1), entry(2, frames=frames, process_group=group)]), 1: dump([completed(1)])}
    dumps[0]["pg_config"]["0"]["desc"] = group[1]
    text = as_text(judge(dumps))
    assert "evil" in text
    assert not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c == "\u202e" for c in text)


def test_skew_in_one_group_does_not_hide_a_mismatch_in_another() -> None:
    tables = {
        "0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"},
        "1": {"name": "1", "desc": "pair", "ranks": "[0, 1]"},
        "2": {"name": "2", "desc": "rest", "ranks": "[2, 3, 4, 5, 6, 7]"},
    }
    pair: dict[str, Any] = {"process_group": ("1", "pair"), "pg_id": 1}
    rest: dict[str, Any] = {"process_group": ("2", "rest"), "pg_id": 2}
    dumps = {}
    for rank in range(8):
        if rank < 2:
            rows = [completed(n, record=n, **pair) for n in range(1, 14 if rank else 1)]
        else:
            rows = [
                completed(1, record=1, **rest),
                entry(2, "broadcast" if rank == 5 else "all_reduce", record=2, **rest),
            ]
        own = {"0": tables["0"], "1" if rank < 2 else "2": tables["1" if rank < 2 else "2"]}
        dumps[rank] = dump(rows, pg_config=own)
    assert named(judge(dumps)) == [(Kind.TYPE_MISMATCH, (5,))]


def test_a_dump_taken_a_moment_later_is_no_culprit() -> None:
    dumps = {0: dump([completed(1), completed(2)]), 1: dump([completed(1), entry(2, state="started")])}
    analysis = judge(dumps)
    assert analysis.origins == ()
    assert analysis.motion is not None


def test_the_record_does_not_say_all_is_well() -> None:
    answer = as_json(judge({0: dump([completed(1), entry(2)]), 1: dump([completed(1)])}))
    assert [o["ranks"] for o in answer["origins"]] == [[1]]
    assert "pass_check" not in json.dumps(answer)


def test_equal_numbers_of_the_two_counters_are_no_batch() -> None:
    dumps = {
        0: dump([p2p(0, 2, "send 0->1", **DONE), completed(2, record=1, p2p_seq_id=2)]),
        1: dump([p2p(0, 2, "recv 1<-0", **DONE), completed(2, record=1, p2p_seq_id=2)]),
    }
    assert judge(dumps).origins == ()


def a2a(sent: list[int], received: list[int]) -> Entry:
    return entry(1, "all_to_all", input_sizes=[[n] for n in sent], output_sizes=[[n] for n in received])


def test_all_to_all_with_uneven_parts_is_judged_by_totals() -> None:
    (origin,) = judge({0: dump([a2a([1, 3], [1, 5])]), 1: dump([a2a([5, 2], [3, 2])])}).origins
    assert origin.kind is Kind.TRANSPORT_STALL, "the parts agree: nothing wrong with the sizes"
    (origin,) = judge({0: dump([a2a([1, 3], [1, 5])]), 1: dump([a2a([6, 2], [3, 2])])}).origins
    assert origin.kind is Kind.SPLIT_MISMATCH
    assert origin.ranks == ()


@pytest.mark.parametrize(
    "op", ["_all_gather_base", "all_gather_single", "_reduce_scatter_base", "reduce_scatter_single"]
)
def test_sizes_are_checked_under_every_name_of_an_operation(op: str) -> None:
    dumps = {r: dump([entry(1, op, output_sizes=[[96 if r == 2 else 128]])], world=4) for r in range(4)}
    assert named(judge(dumps)) == [(Kind.SIZE_MISMATCH, (2,))]


def test_no_sizes_and_different_types() -> None:
    dumps = {
        r: dump([entry(1, input_sizes=[], output_sizes=[], input_dtypes=["Half" if r else "Float"])], world=3)
        for r in (1, 2, 0)
    }
    assert named(judge(dumps)) == [(Kind.DTYPE_MISMATCH, (0,))]


def test_group_facts_may_disagree() -> None:
    dumps = {r: dump([completed(1), entry(2)], world=3) for r in range(3)}
    dumps[0]["pg_config"]["0"]["desc"] = "renamed"
    dumps[1]["pg_config"] = {}
    dumps[2]["entries"].pop()
    assert named(judge(dumps)) == [(Kind.STUCK_BEFORE_COLLECTIVE, (2,))]
