"""The answer as an engineer reads it: equal things once, nothing wider than the terminal, nothing hidden unsaid."""

import json
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from handwritten import blobs, completed, dump, entry

from oncall import cli
from oncall.flight_recorder import Analysis, Kind, analyse, as_json, load_blobs
from oncall.flight_recorder.collective_table import Cell, CellState, CollectiveTable, TableRow, as_lines
from oncall.flight_recorder.report import as_text


def frames(function: str, line: int) -> list[dict[str, Any]]:
    return [{"name": function, "filename": "/workspace/training/pipeline/train.py", "line": line}]


def analysed(dumps: dict[int, dict[str, Any]], world: int | None = None) -> Analysis:
    return analyse(load_blobs(blobs(dumps)), world_size=world)


def stuck(culprits: Iterable[int], world: int) -> dict[int, dict[str, Any]]:
    """The culprits have not issued operation 2; each second of them last called from another place."""
    dumps = {}
    for rank in range(world):
        first = completed(1, frames=frames("load" if rank % 2 else "step", 7))
        rows = [first, entry(2, frames=frames("sync_gradients", 30))]
        dumps[rank] = dump(rows[: 1 if rank in set(culprits) else 2], world=world)
    return dumps


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Rank 3 of 4 has not issued operation 2."""
    for name, content in blobs(stuck([3], 4)):
        (tmp_path / name).write_bytes(content)
    return tmp_path


def test_ranks_stuck_at_one_operation_are_one_fault() -> None:
    analysis = analysed(stuck(range(16, 32), 64))
    assert len(analysis.origins) == 16
    lines = as_text(analysis).splitlines()
    heads = [line for line in lines if line.startswith("stuck")]
    assert heads == ["stuck_before_collective: ranks 16-31 have not issued all_reduce (group default_pg, seq 2)"]
    places = [line for line in lines if line.startswith("  last called")]
    assert [place.rpartition(": ")[2] for place in places] == [
        "ranks 16,18,20,22,24,26,28,30",
        "ranks 17,19,21,23,25,27,29,31",
    ]


def test_ranks_stuck_in_two_groups_are_two_faults() -> None:
    dumps = {}
    for rank in range(4):
        table = {"0": {"name": "0", "desc": "tp", "ranks": "[0, 1]" if rank < 2 else "[2, 3]"}}
        dumps[rank] = dump([completed(1), entry(2)][: 1 if rank % 2 else 2], pg_config=table)
    heads = [line for line in as_text(analysed(dumps)).splitlines() if line.startswith("stuck")]
    assert len(heads) == 2


def test_absent_ranks_of_one_reason_are_one_line() -> None:
    files = [*blobs({r: dump([completed(1), entry(2)], world=64) for r in range(4)})]
    files += [(f"rank_{rank}", b"") for rank in range(4, 20)]
    text = as_text(analyse(load_blobs(files)))
    assert "ranks 4-19 not observed: empty file" in text
    assert "ranks 20-63 not observed: no file" in text
    assert text.count("not observed") == 2
    assert "(rank_4 and 15 more)" in text


def test_a_world_of_a_million_is_answered_in_a_page() -> None:
    text = as_text(analysed({0: dump([entry(1)])}, world=1_000_000))
    assert len(text) < 2_000


def test_files_that_are_no_dump_are_named_once_a_reason() -> None:
    files = [*blobs(stuck([3], 4)), ("rank_9", b""), ("README", b"text"), ("notes", b"text")]
    text = as_text(analyse(load_blobs(files)))
    assert "(README" in text or "(notes" in text
    assert "rank_9" in text, "beyond the world it is no absent rank, and would go unsaid"


@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    dumps = stuck([3], 64)
    for rank in range(0, 64, 5):
        dumps[rank]["entries"][0].update(input_sizes=[[rank]], frames=frames(f"call_of_a_long_name_{rank}", rank))
    del dumps[63]
    text = as_text(analysed(dumps), width)
    paths = [line for line in text.splitlines() if "/workspace/" in line]
    assert [line for line in text.splitlines() if len(line) > width and line not in paths] == []
    assert text.replace("\n", " ").split() != [], "there is an answer"
    assert "(/workspace/training/pipeline/train.py:30)" in text, "a path stays in one piece"


def test_the_command_keeps_to_the_width_of_the_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert cli.main(["fr", "--since", str(folder), str(folder)]) == 10
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 60 and "/workspace/" not in line] == []
    assert max(map(len, lines)) > 40


def test_a_narrow_table_keeps_the_accused_and_the_most_and_counts_the_rest() -> None:
    sets = ["10", *(str(rank) for rank in range(20, 29)), "30-63"]
    states = [CellState.NOT_ISSUED] + [CellState.WAITS] * 10
    cells = tuple(Cell(state, "all_gather_into_tensor", 64 + i, "Float") for i, state in enumerate(states))
    table = CollectiveTable("dp", 40, tuple(sets), (TableRow(7, cells, bad=True, agrees=False, one_site=True),), more=2)
    lines = list(as_lines(table, 80))
    assert max(map(len, lines)) <= 80
    assert "rank 10" in lines[1]
    assert "ranks 30-63" in lines[1]
    shown = sum(lines[1].count(f"rank {name}") for name in sets[1:-1]) + 2
    assert lines[-1] == f"  and {len(sets) - shown + 2} more sets of ranks"
    words = " ".join(lines[2:-1]).split()
    assert "issued" in words, "a cell goes on below, it is not cut off"


def test_the_accused_are_the_first_columns_of_their_table() -> None:
    dumps = stuck(range(10, 20), 24)
    for rank in range(5):
        dumps[rank]["entries"][0].update(input_sizes=[[rank]])
    (table,) = analysed(dumps).tables
    assert table.columns[:2] == ("10,12,14,16,18", "11,13,15,17,19"), "those with one rank come after them"


def test_a_ring_tells_each_of_its_steps_with_its_call_site() -> None:
    """Rank 0 is in group A and then B, rank 1 the other way round; both are members of both."""
    groups = {name: {"name": name, "desc": name, "ranks": "[0, 1]"} for name in "AB"}
    rows = {}
    for rank, order in enumerate(("AB", "BA")):
        rows[rank] = dump(
            [
                entry(1, record=record, pg_id=ord(name), process_group=(name, name), frames=frames(f"use_{name}", rank))
                for record, name in enumerate(order)
            ],
            pg_config=groups,
        )
    (origin,) = analysed(rows).origins
    assert origin.kind is Kind.CYCLE
    steps = {(hop.rank, hop.group.name, hop.held_by, hop.frame.name if hop.frame else None) for hop in origin.chain}
    assert steps == {(0, "A", (1,), "use_A"), (1, "B", (0,), "use_B")}


def transfer(name: str, **changed: Any) -> dict[str, Any]:
    return entry(0, name, record=5, p2p_seq_id=1, is_p2p=True, **changed)


def test_a_send_without_its_receive_has_a_table_with_both_ends() -> None:
    """Ranks 2 and 3 of the job are 0 and 1 of the group; rank 3 waits in a collective instead of receiving."""
    groups = {
        name: {"name": name, "desc": desc, "ranks": "[2, 3]"} for name, desc in (("0", "default_pg"), ("1", "pp"))
    }
    pp = {"pg_id": 1, "process_group": ("1", "pp")}
    dumps = {
        2: dump([completed(1), transfer("send 0->1", **pp, frames=frames("forward", 9))], pg_config=groups),
        3: dump([completed(1), entry(2)], pg_config=groups),
    }
    analysis = analysed(dumps)
    (table,) = [table for table in analysis.tables if table.group == "pp"]
    ((row,), columns) = table.rows, table.columns
    assert columns == ("2", "3")
    assert row.bad
    assert (row.cells[0].operation, row.cells[0].site) == ("send 2->3", "forward:9")
    assert row.cells[1].state is CellState.NOT_ISSUED


def test_a_send_of_another_size_than_its_receive_shows_both() -> None:
    ends = {0: ("send 0->1", 128), 1: ("recv 1<-0", 64)}
    dumps = {
        rank: dump([completed(1), transfer(name, input_sizes=[[size]], output_sizes=[[size]])])
        for rank, (name, size) in ends.items()
    }
    (table,) = analysed(dumps).tables
    (row,) = table.rows
    assert not row.agrees
    assert [(cell.operation, cell.elements) for cell in row.cells] == [("send 0->1", 128), ("recv 0->1", 64)]


def test_what_is_undecided_says_where_its_peers_wait() -> None:
    rows = [completed(1), entry(2, frames=frames("sync_gradients", 30))]
    analysis = analysed({rank: dump(rows, world=4) for rank in range(2)})
    text = as_text(analysis)
    assert "group default_pg, seq 2" in text.partition("dumps:")[0]
    assert "peers wait   sync_gradients (/workspace/training/pipeline/train.py:30)" in text
    (part,) = as_json(analysis)["undecided"]
    assert part["victim_frame"]["line"] == 30


@pytest.mark.parametrize("only_active", [False, True])
def test_few_active_operations_are_no_small_buffer(only_active: bool) -> None:
    older = [] if only_active else [completed(1, record=2000)]
    dumps = {r: dump([*older, entry(2, record=2001), entry(3, record=2002)]) for r in range(2)}
    notes = analysed(dumps).coverage.notes
    assert any("TORCH_FR_BUFFER_SIZE" in note for note in notes) is not only_active
    assert any(note.startswith("2 dumps list active operations only") for note in notes) is only_active


def test_what_the_options_hide_is_not_called_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = {"1": {"name": "1", "desc": "other", "ranks": "[0, 1]"}}
    for rank in range(2):
        content = pickle.loads((folder / f"rank_{rank}").read_bytes())
        content["pg_config"] |= pair
        (folder / f"rank_{rank}").write_bytes(pickle.dumps(content))
    assert cli.main(["fr", "--groups", "other", str(folder)]) == 10
    said = capsys.readouterr()
    assert "no origin" not in said.out
    assert "1 finding concerns other ranks and groups" in said.out
    assert "group default_pg" not in said.out, "tables of other groups are left out as well"
    assert "1 of 1 findings" in said.err
    assert "no group is called" not in said.err


def test_an_unknown_group_is_told_whatever_it_hides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fr", "--groups", "default_pg,mesh_pp", str(folder)]) == 10
    assert "no group is called mesh_pp; there are: default_pg" in capsys.readouterr().err


def test_the_ranks_asked_for_narrow_what_is_open_and_what_is_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for pair in ((0, 1), (2, 3)):
        table = {"0": {"name": "0", "desc": f"tp{pair[0]}", "ranks": str(list(pair))}}
        rows = [completed(1), entry(2, process_group=("0", f"tp{pair[0]}"))]
        (tmp_path / f"rank_{pair[0]}").write_bytes(pickle.dumps(dump(rows, pg_config=table)))
    assert cli.main(["fr", "--json", "--ranks", "2,3", str(tmp_path)]) == 11
    answer = json.loads(capsys.readouterr().out)
    assert [row["rank"] for row in answer["coverage"]["absent"]] == [3]
    assert [table["group"] for table in answer["tables"]] == ["tp2"]


def test_the_listing_tells_states_as_recorded_and_what_it_could_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [completed(1), entry(2, state="started"), entry(3)]
    (tmp_path / "rank_0").write_bytes(pickle.dumps(dump(rows)))
    gloo = [entry(1, profiling_name="gloo:all_reduce", retired=True), entry(2, profiling_name="gloo:all_reduce")]
    (tmp_path / "rank_1").write_bytes(pickle.dumps(dump(gloo, comm_lib_version="")))
    (tmp_path / "rank_2").write_bytes(b"")
    assert cli.main(["fr", "--print", "--processes", "2", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    states = [line.split("  ")[6] for line in lines if line.startswith("  ")]
    assert states == ["completed", "started", "scheduled", "scheduled, retired", "scheduled"]
    assert "rank 2: not read: empty file: the process died or was cut off before it wrote (rank_2)" in lines
