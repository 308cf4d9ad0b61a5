"""Files of any naming and packing become dumps; hostile ones cost neither memory nor time."""

import gzip
import json
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from handwritten import blobs, completed, dump, entry

from oncall.errors import UsageError
from oncall.flight_recorder import Kind, analyse, as_json, files, load_blobs, load_paths, reduce

WAITING = dump([completed(1), entry(2)])
IDLE = dump([completed(1)])


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, zstandard.ZstdCompressor().compress], ids=["plain", "gz", "zst"]
)
def test_packed_files_are_read(pack: Any) -> None:
    files = [(name, pack(content)) for name, content in blobs({0: WAITING, 1: IDLE})]
    assert [o.ranks for o in analyse(load_blobs(files)).origins] == [(1,)]


def test_json_dumps_of_the_recorder_are_read() -> None:
    """No stacks, zero for an unknown time, counters as strings, and no `entries` key when there are none."""
    waiting = entry(2, time_discovered_started_ns=0, time_discovered_completed_ns=0)
    status = {"0": {"last_enqueued_collective": "1", "last_started_collective": "-1", "last_completed_collective": "1"}}
    idle = dump([], pg_status=status)
    del idle["entries"]
    files = [("rank_0", json.dumps(dump([completed(1), waiting])).encode()), ("rank_1", json.dumps(idle).encode())]
    assert [(o.kind, o.ranks) for o in analyse(load_blobs(files)).origins] == [(Kind.STUCK_BEFORE_COLLECTIVE, (1,))]


def test_what_the_node_cannot_unpack_is_handed_over_whole(tmp_path: Path) -> None:
    (tmp_path / "rank_0.zst").write_bytes(zstandard.ZstdCompressor().compress(pickle.dumps(WAITING)))
    (tmp_path / "rank_1").write_bytes(pickle.dumps(IDLE))
    (tmp_path / "rank_2.zst").write_bytes(zstandard.ZstdCompressor().compress(b"no dump"))
    files = sorted(tmp_path.iterdir())
    script = [sys.executable, "-I", "-S", str(Path(reduce.__file__)), *map(str, files)]
    done = subprocess.run(script, capture_output=True, check=True)
    dumps = load_blobs([("node.gz", done.stdout)])
    assert [o.ranks for o in analyse(dumps).origins] == [(1,)]
    assert ["not a Flight Recorder dump" in refused.reason for refused in dumps.refused] == [True]


def test_a_damaged_file_that_a_node_hands_over_is_refused() -> None:
    line = json.dumps({"schema": reduce.SCHEMA, "name": "/tmp/rank_0.zst", "whole": "!"}).encode()
    assert [refused.source for refused in load_blobs([("node.gz", line)]).refused] == ["/tmp/rank_0.zst"]


@pytest.mark.parametrize("name", ["zero", "pipe"])
def test_what_never_ends_or_never_begins_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PIPE_WAIT_S", 0.05)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (refused,) = load_paths([tmp_path / name]).refused
    assert refused.reason in {"neither a file nor a pipe", "a pipe into which nobody wrote for 0.05 s"}


def test_what_a_shell_pipes_in_is_read(tmp_path: Path) -> None:
    """As `oncall fr <(ssh node cat rank_0)`; the content is larger than a pipe holds at once."""
    pipe = tmp_path / "rank_0"
    os.mkfifo(pipe)
    content = pickle.dumps(dump([completed(seq) for seq in range(1, 600)]))
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; data = sys.stdin.buffer.read(); open(sys.argv[1], 'wb').write(data)",
            str(pipe),
        ],
        stdin=subprocess.PIPE,
    )
    assert writer.stdin is not None
    with writer.stdin as stream:
        stream.write(content)
    loaded = load_paths([pipe])
    assert writer.wait() == 0
    assert [dump.total for dump in loaded.dumps.values()] == [599]


def test_a_folder_that_may_not_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "closed").mkdir()
    (tmp_path / "open" / "rank_0").write_bytes(pickle.dumps(WAITING))
    scandir = os.scandir

    def listed(path: str) -> Any:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listed)  # the superuser, as whom tests may run, is refused nowhere
    loaded = load_paths([tmp_path])
    assert list(loaded.dumps) == [0]
    assert [(r.source, r.reason) for r in loaded.refused] == [
        (str(tmp_path / "closed"), "cannot be listed: Permission denied")
    ]


def test_a_path_that_does_not_exist_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load_paths([tmp_path / "nowhere"])


def _pickle(body: bytes) -> bytes:
    return b"\x80\x02" + body + b"."


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(_pickle(b"cos\nsystem\n"), id="global"),
        pytest.param(b"\x80\x04\x8c\x02os\x8c\x06system\x93.", id="stack global"),
        pytest.param(b"\x80\x02\x82\x01.", id="extension registry"),
        pytest.param(b"\x80\x02Pid\n.", id="persistent id"),
        pytest.param(_pickle(b"}r" + struct.pack("<I", 0x7FFFFFFF)), id="memo index of 2**31"),
        pytest.param(b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.", id="bytes of a terabyte"),
        pytest.param(_pickle(b"\x8b" + struct.pack("<i", 0x7FFFFFF0)), id="number of two gigabytes"),
        pytest.param(b"\x80\x05\x96" + struct.pack("<Q", 1 << 60) + b"x.", id="bytearray beyond all memory"),
        pytest.param(b"[" * 200_000, id="not even a pickle"),
        pytest.param(b'{"entries":' + b"[" * 200_000, id="deep JSON"),
        pytest.param(_pickle(b"](" * 50_000), id="deep pickle"),
    ],
)
def test_hostile_content_is_refused(content: bytes) -> None:
    dumps = load_blobs([("rank_0", content)])
    assert dumps.dumps == {}
    assert len(dumps.refused) == 1


def test_a_bytearray_beyond_all_memory_leaves_no_word_on_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """CPython complains by what lay in the memory before, hence not every time."""
    before = (b"](K\x01K\x02N\x88\x89e0", b"}X\x05\x00\x00\x00abcdeq\x00K\x07s0")
    contents = [b"\x80\x05" + start + b"\x96" + struct.pack("<Q", 1 << 60) + b"x." for start in before]
    for content in contents * 1000:
        with pytest.raises(reduce.DumpError):
            reduce.load_dump(content)
    assert capfd.readouterr() == ("", "")


def test_values_of_the_wrong_type_do_not_end_the_run() -> None:
    odd = dump([completed(1), entry(2)])
    for row in odd["entries"]:
        row.update(
            profiling_name=7, input_sizes="x", frames=[1, None, {"name": 3}], time_created_ns="now", p2p_seq_id=None
        )
    odd["pg_config"]["0"]["ranks"] = ["0", 1, {}]
    odd["pg_status"] = {"0": "x", 3: None}
    dumps = load_blobs([("rank_0", pickle.dumps(odd)), ("rank_1", pickle.dumps(WAITING))])
    assert sorted(dumps.dumps) == [0, 1]
    analyse(dumps)


@pytest.mark.parametrize("value", [[1], {"a": 1}, 1.5, None, 10**5000, (1, (2,))], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize(
    "key", ["pg_id", "is_p2p", "record_id", "process_group", "duration_ms", "state", "time_created_ns"]
)
def test_any_value_under_any_key(key: str, value: Any) -> None:
    odd = dump([completed(1), {**entry(2), key: value}], pg_status={value: {}} if isinstance(value, tuple) else {})
    odd["pg_config"]["0"]["ranks"] = [0, 1, value]
    analyse(load_blobs([("rank_0", pickle.dumps(odd)), ("rank_1", pickle.dumps(IDLE))]))


@pytest.mark.parametrize("depth", [5_000, 3_000_000])
def test_keys_nested_beyond_what_python_can_print_or_an_8_mb_stack_can_hash(depth: int) -> None:
    key = b")" + b"\x85" * depth
    content = b"\x80\x02}(X\x09\x00\x00\x00pg_config}" + key + b"}sX\x09\x00\x00\x00pg_status}" + key + b"}su."
    assert list(load_blobs([("rank_0", content)]).dumps) == [0]


def test_what_may_be_nested_deeper_than_any_stack_is_refused() -> None:
    (refused,) = load_blobs([("rank_0", b"\x80\x02}" + b")" + b"\x85" * 9_000_000 + b"Ns.")]).refused
    assert "nested" in refused.reason


@pytest.mark.parametrize("key", ["input_sizes", "process_group", "frames"])
def test_lists_that_hold_one_another_twice_do_not_unfold(key: str) -> None:
    """Sixty of them in some hundred bytes stand for 2**60 lists."""
    lists: list[Any] = []
    for _ in range(60):
        lists = [lists, lists]
    odd = dump([completed(1), entry(2), entry(3, **{key: lists})])
    dumps = load_blobs(blobs({0: odd, 1: IDLE}))
    assert [o.ranks for o in analyse(dumps).origins] == [(1,)]


@pytest.mark.parametrize("missing", ["pg_id", "is_p2p", "retired", "state", "collective_seq_id", "record_id"])
def test_a_missing_key_costs_an_entry_at_most(missing: str) -> None:
    odd = dump([completed(1), entry(2), entry(3)])
    del odd["entries"][1][missing]
    dumps = load_blobs([("rank_0", pickle.dumps(odd)), ("rank_1", pickle.dumps(IDLE))])
    assert [o.ranks for o in analyse(dumps).origins] == [(1,)]


REAL = ["02_skip_all_reduce", "07_loader_exhausted", "09_stuck_sleep", "09b_stuck_lock_fsdp", "14_dump_truncated"]


@pytest.mark.parametrize("case", REAL)
def test_the_answer_is_the_same_after_a_reduction_on_the_node(material: Path, case: str, tmp_path: Path) -> None:
    files = sorted((material / "real" / case / "dumps").iterdir())
    script = [sys.executable, "-I", "-S", str(Path(reduce.__file__)), *map(str, files)]
    done = subprocess.run(script, capture_output=True, check=True)
    (tmp_path / "node01.gz").write_bytes(done.stdout)
    direct, reduced = load_paths(files), load_paths([tmp_path])
    assert sorted(direct.dumps) == sorted(reduced.dumps)
    assert [r.rank for r in direct.refused] == [r.rank for r in reduced.refused]
    here, there = as_json(analyse(direct)), as_json(analyse(reduced))
    assert here["origins"] == there["origins"]
    assert here["undecided"] == there["undecided"]
    assert len(done.stdout) < sum(file.stat().st_size for file in files) / 2


def test_sends_over_long_ago_are_counted_and_all_since_an_open_one_are_kept() -> None:
    sends = [completed(0, "send 0->1", record=n, p2p_seq_id=n + 1, is_p2p=True) for n in range(200)]
    stuck = [{**send, "state": "scheduled"} if send["record_id"] == 60 else send for send in sends]
    dumps = load_blobs(blobs({0: dump(sends), 1: dump(stuck)})).dumps
    for loaded in dumps.values():
        (records,) = loaded.channels.values()
        ((older, numbers),) = loaded.launches.values()
        assert list(records) == list(range(200))
        assert [*older, *(op.record for op in loaded.ops)] == list(range(200))
        assert [*numbers, *(op.p2p_seq for op in loaded.ops)] == list(range(1, 201))
    assert len(dumps[0].ops) < 100
    assert dumps[1].ops[0].record == 60


def test_a_damaged_reduction_is_refused() -> None:
    line = reduce.encode_row("rank_0", reduce.reduce_dump(WAITING))
    assert list(load_blobs([("n", line)]).dumps) == [0]
    assert load_blobs([("n", line[:-40])]).dumps == {}


def test_several_processes_load_the_same(tmp_path: Path) -> None:
    for rank in range(5):
        rows = [completed(1), entry(2, "broadcast" if rank == 3 else "all_reduce", frames=[{"name": "f"}])]
        (tmp_path / f"rank_{rank}").write_bytes(pickle.dumps(dump(rows, world=5)))
    (tmp_path / "rank_9").write_bytes(b"")
    alone, shared = load_paths([tmp_path], processes=1), load_paths([tmp_path], processes=2)
    assert dict(alone.dumps) == dict(shared.dumps)
    assert alone.refused == shared.refused


def test_a_node_that_limits_the_address_space_reduces_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "rank_0"
    file.write_bytes(pickle.dumps(WAITING))
    script = 'ulimit -v 400000; exec "$0" -I -S "$1" "$2"'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, str(reduce.__file__), str(file)], capture_output=True, check=True
    )
    assert list(load_blobs([("node.gz", done.stdout)]).dumps) == [0]
