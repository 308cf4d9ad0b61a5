"""What the readers of NCCL and torchrun lines promise beyond the specification's cases."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncall.formats.envelope import unwrap
from oncall.formats.event import Event
from oncall.formats.nccl_summary import summarise_nccl
from oncall.formats.torchrun import ANCHORS, read_torchrun

DATA = Path(__file__).resolve().parents[2] / "data"

FAILED = (
    "[E927 18:20:11.900417111 ProcessGroupNCCL.cpp:2257] [PG ID {pg} PG GUID {pg}(desc) Rank 3]  failure detected by "
    "watchdog at work sequence id: 9 PG status: last enqueued work: 11, last completed work: 8"
)


def only(text: str, rank: int | None = None) -> Event:
    (event,) = read_torchrun(text.encode() + b"\n", "log", rank=rank).events
    return event


def test_rank_of_a_sub_group_is_not_taken_for_the_global_one() -> None:
    assert only(FAILED.format(pg=4)).fields["rank"] is None
    assert only(FAILED.format(pg=4), rank=11).fields["rank"] == 11
    assert only("[rank12]:" + FAILED.format(pg=4), rank=11).fields["rank"] == 12
    assert only(FAILED.format(pg=0)).fields["rank"] == 3


@pytest.mark.parametrize(
    "envelope",
    [
        "[default3]:[rank3]:",
        "12: [rank3]:",
        "[pod/train-0/main] [rank3]:",
        "2026-09-27T18:20:11.950Z stderr F [rank3]:",
        "2026-09-27T18:20:11+02:00 node-a03 [rank3]:",
        "trainer/0 [3]:[rank3]:",
        "\x1b[38;2;180;60;0m[rank3]:",
    ],
)
def test_envelopes_are_taken_off(envelope: str) -> None:
    event = only(envelope + FAILED.format(pg=4))
    assert (event.fields["rank"], event.fields["seq"]) == (3, 9)


def test_indentation_is_no_envelope() -> None:
    assert unwrap("     rank  0: 1502.33") == (None, "     rank  0: 1502.33")


def test_line_numbers_count_line_feeds_only() -> None:
    data = b"a\rb\x0c\n\n" + FAILED.format(pg=0).encode() + b"\r\n"
    (event,) = read_torchrun(data, "log").events
    assert event.first_line == 3


def test_last_line_without_line_feed_counts() -> None:
    assert len(read_torchrun(FAILED.format(pg=0).encode(), "log").events) == 1


def test_newest_state_of_an_endless_progress_bar() -> None:
    states = b"".join(b"\r %d%%|##  | %d/1000 [00:10<01:00, 3.10s/it]" % (step // 10, step) for step in range(1, 999))
    (event,) = read_torchrun(states * 3, "log").events
    assert event.fields["step"] == 998


def test_same_timeout_told_again_is_one_incident() -> None:
    timeout = (
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=2, "
        "NumelOut=2, Timeout(ms)=600000) ran for 600019 milliseconds before timing out."
    )
    text = (
        f"[rank3]:[E927 18:20:11.900417111 ProcessGroupNCCL.cpp:632] {timeout}\n"
        f"[rank3]:{FAILED.format(pg=0)}\n"
        "  what():  [PG ID 0 PG GUID 0(desc) Rank 3] Process group watchdog thread terminated with exception: "
        f"{timeout}\n"
    )
    events = read_torchrun(text.encode(), "log").events
    assert [each.fields.get("repeats_line") for each in events] == [None, None, 1]
    summary = summarise_nccl(events)
    assert (summary["incidents"], summary["ranks_timed_out"]) == (1, [3])


def test_counters_of_another_group_accuse_nobody() -> None:
    signal = (
        "[rank5]:[E927 18:20:12.0 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump "
        "signal due to a collective timeout from  rank 3 and we will try our best to dump the debug info. Last "
        "enqueued NCCL work: 2, last completed NCCL work: 2."
    )
    events = read_torchrun(f"[rank3]:{FAILED.format(pg=4)}\n{signal}\n".encode(), "log").events
    assert "never_enqueued" not in summarise_nccl(events)


def test_root_cause_survives_a_cut_table() -> None:
    text = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-02-11_07:07:55\n  host      : n1\n"
        "  rank      : 61 (local_rank: 5)\n  exitcode  : 1 (pid: 77)\n  error_file: <N/A>\n"
        "  traceback : Traceback (most recent call last):\n    File 'x', line 1\n  ValueError: no\n" + "=" * 60 + "\n"
    )
    event = only(text)
    assert event.fields["others"] is None
    assert event.fields["root_cause"] == {
        "rank": 61, "local_rank": 5, "exitcode": 1, "signal": None, "pid": 77, "host": "n1",
        "time": "2026-02-11T07:07:55", "error": "ValueError: no",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "tasks", "exitcode"),
    [
        ("srun: error: node-a03: task 3: Exited with exit code 137", "3", 137),
        ("srun: error: node-a03: tasks 0-2,5: Killed", "0-2,5", None),
    ],
)
def test_slurm_says_which_tasks_ended(line: str, tasks: str, exitcode: int | None) -> None:
    event = only(line)
    assert (event.kind, event.fields["host"]) == ("slurm_task_exit", "node-a03")
    assert (event.fields["tasks"], event.fields["exitcode"]) == (tasks, exitcode)


@given(st.lists(st.one_of(st.sampled_from(sorted(ANCHORS)), st.binary(max_size=40)), max_size=30))
def test_any_bytes_are_a_log(parts: list[bytes]) -> None:
    data = b" ".join(parts)
    parsed = read_torchrun(data, "log")
    lines = data.count(b"\n") + 1
    assert all(1 <= each.first_line <= each.last_line <= lines for each in parsed.events)
    assert all(1 <= number <= lines for number in parsed.unrecognised)


def test_real_torchrun_log_of_a_killed_rank() -> None:
    """PyTorch 2.13, gloo, 2 ranks, one restart allowed, rank 1 kills itself with SIGKILL after it has joined."""
    parsed = read_torchrun((DATA / "torchrun-2.13.log").read_bytes(), "log")
    assert parsed.unrecognised == ()
    failed = [each.fields for each in parsed.events if each.kind == "elastic_worker_failed"]
    assert (failed[0]["local_rank"], failed[0]["signal"]) == (1, "SIGKILL")
    met = [each.fields for each in parsed.events if each.kind == "elastic_rendezvous"]
    assert [(each["restart_count"], each["world_size"], each["global_ranks"]) for each in met] == [
        (0, 2, [0, 1]),
        (1, 2, [0, 1]),
    ]
    lost = [each.fields for each in parsed.events if each.kind == "gloo_error"]
    assert (lost[0]["rank"], lost[0]["error"]) == (0, "Connection closed by peer [127.0.0.1]:35749")
    (table,) = [each for each in parsed.events if each.kind == "elastic_failure_summary"]
    root = table.fields["root_cause"]
    assert isinstance(root, dict)
    assert (root["rank"], root["host"], root["error"]) == (1, "localhost", None)
