"""What the reader sees: text, JSON, the table of the incident, the listing, the exit code."""

import json
import pickle
from pathlib import Path

import pytest
from handwritten import blobs, completed, dump, entry

from oncall import cli
from oncall.flight_recorder import analyse, as_json, load_blobs
from oncall.flight_recorder.collective_table import cell_text
from oncall.flight_recorder.report import as_text, neutral, place

TORCH = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
FRAMES = [
    {"name": "all_reduce", "filename": TORCH, "line": 3245},
    {"name": "sync_gradients", "filename": "/w/train.py", "line": 14},
    {"name": "main", "filename": "/w/train.py", "line": 40},
]


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """Rank 3 of 4 has not issued operation 2."""
    for rank in range(4):
        rows = [completed(1, frames=FRAMES), entry(2, frames=FRAMES)][: 1 if rank == 3 else 2]
        (tmp_path / f"rank_{rank}").write_bytes(pickle.dumps(dump(rows, world=4)))
    return tmp_path


def test_the_text_says_who_where_and_what_next(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fr", str(stuck)]) == 10
    out = capsys.readouterr().out
    head, *rest = out.splitlines()
    assert head == "stuck_before_collective: rank 3 has not issued all_reduce (group default_pg, seq 2)"
    assert "  peers wait   sync_gradients (/w/train.py:14)" in rest
    assert any(line.startswith("  next check   ") for line in rest)
    assert "dumps: 4 of 4 ranks" in rest


def test_the_json_has_the_promised_keys(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fr", "--json", str(stuck)]) == 10
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "oncall.flight-recorder/1"
    assert set(answer) >= {"origins", "undecided", "coverage"}
    (origin,) = answer["origins"]
    assert set(origin) >= {"kind", "ranks", "group", "seq", "op", "frame", "grade", "explains", "chain"}
    assert set(origin["group"]) >= {"name", "desc", "ranks"}
    assert origin["frame"] is None, "the rank issued nothing, so nothing of its code is blamed"
    assert origin["last_frame"] == {"name": "sync_gradients", "file": "/w/train.py", "line": 14}


def test_the_listing_names_every_entry(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fr", "--print", "--ranks", "0,3", str(stuck)]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split(" (")[0] for line in lines if line.startswith("rank")]
    assert heads == ["rank 0: 2 of 2 entries", "rank 3: 1 of 1 entry"]
    assert sum("all_reduce" in line for line in lines) == 3


def test_ranks_and_groups_narrow_the_answer_without_a_listing(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for narrow, shown in ((["--ranks", "3"], 1), (["--groups", "mesh_tp"], 0), (["--groups", "default_pg"], 1)):
        assert cli.main(["fr", "--json", *narrow, str(stuck)]) == 10
        assert len(json.loads(capsys.readouterr().out)["origins"]) == shown


def test_an_earlier_snapshot_says_what_moved(stuck: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fr", "--json", "--since", str(stuck), str(stuck)]) == 10
    assert json.loads(capsys.readouterr().out)["movement"]["pace"] == "stuck"


def test_exit_codes_of_an_empty_folder_and_a_wrong_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fr", str(tmp_path)]) == 12
    assert cli.main(["fr", "--ranks", "all", str(tmp_path)]) == 2
    assert cli.main(["fr", str(tmp_path / "nowhere")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_the_table_folds_ranks_that_behaved_alike_and_marks_where_they_diverge() -> None:
    dumps = {r: dump([completed(1), entry(2, "broadcast" if r == 2 else "all_reduce")], world=6) for r in range(6)}
    (table,) = analyse(load_blobs(blobs(dumps))).tables
    assert table.columns == ("2", "0-1,3-5")
    assert [(row.sequence, row.bad, row.agrees) for row in table.rows] == [(1, False, True), (2, True, False)]
    assert [cell_text(cell, table.rows[1]) for cell in table.rows[1].cells] == [
        "broadcast 64 Float waits",
        "all_reduce 64 Float waits",
    ]


def test_groups_of_one_name_have_tables_of_their_own() -> None:
    """`split_group` gives all groups of one mesh dimension the same name; their members tell them apart."""
    dumps = {}
    for rank in range(4):
        pair = "[0, 1]" if rank < 2 else "[2, 3]"
        rows = [completed(1), entry(2)][: 1 if rank in {1, 3} else 2]
        dumps[rank] = dump(rows, pg_config={"0": {"name": "0", "desc": "mesh_tp", "ranks": pair}})
    tables = analyse(load_blobs(blobs(dumps))).tables
    assert sorted(table.columns for table in tables) == [("1", "0"), ("3", "2")], "the accused first"


def test_absent_dumps_come_with_the_likely_reason() -> None:
    files = [*blobs({r: dump([completed(1), entry(2)], world=4) for r in range(2)}), ("rank_2", b"")]
    text = as_text(analyse(load_blobs(files)))
    assert "rank 2 not observed: empty file" in text
    assert "(rank_2)" in text
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING=1" in text
    assert "$HOME/.cache" in text
    assert "the dumps of ranks 2-3 would decide" in text


def test_unknown_is_null_not_zero() -> None:
    answer = as_json(analyse(load_blobs(blobs({0: dump([entry(1)], world=3)}))))
    assert answer["origins"] == []
    assert answer["undecided"][0]["deciding"] == [1, 2]
    healthy = as_json(analyse(load_blobs(blobs({r: dump([completed(1)]) for r in range(2)}))))
    assert healthy["undecided"] is None
    assert healthy["motion"] is None


def test_a_call_site_is_the_first_frame_outside_pytorch() -> None:
    dumps = {r: dump([entry(1, "broadcast" if r == 1 else "all_reduce", frames=FRAMES)], world=3) for r in range(3)}
    (origin,) = analyse(load_blobs(blobs(dumps))).origins
    assert origin.frame is not None
    assert place(origin.frame) == "sync_gradients (/w/train.py:14)"


@pytest.mark.parametrize("text", ["\x1b[31m", "a\rb", "\u202etxt", "\x9b1m", "\x00", "line\nbreak"])
def test_control_characters_become_escapes(text: str) -> None:
    assert neutral(text).isprintable()
    assert neutral("Größe 学习") == "Größe 学习"


def test_a_ring_that_wrapped_says_how_far_back_it_reaches() -> None:
    rows = [completed(seq, record=2000 + seq) for seq in range(1, 5)]
    whole = as_json(analyse(load_blobs(blobs({r: dump([completed(1, record=0)]) for r in range(2)}))))
    assert whole["coverage"]["notes"] == []
    wrapped = as_json(analyse(load_blobs(blobs({0: dump(rows), 1: dump(rows)}))))
    (note,) = wrapped["coverage"]["notes"]
    assert "last 4 operations, 0.003 s" in note  # entries are a millisecond apart
    assert "TORCH_FR_BUFFER_SIZE" in note
