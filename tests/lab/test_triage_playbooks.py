"""Two incidents on real nodes from the command to its replay, as faults leave their logs: no job runs."""

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from .cluster import Cluster
from .driving import replay_offline, triage, without_times
from .stage import Stage, step

RANKS = "rank,host,local_rank\n" + "".join(f"{rank},node{rank // 4 + 1:03},{rank % 4}\n" for rank in range(8))


@pytest.fixture
def stage(cluster: Cluster) -> Stage:
    """The two nodes of a cluster, and a rank map in the run file."""
    staged = Stage(cluster, (cluster.nodes[0], cluster.nodes[1]))
    staged.more = '[ranks]\nfile = "run42.ranks.csv"\n'
    return staged


def concluded(stage: Stage, folder: Path, playbook: str) -> dict[str, object]:
    """The verdict of a triage, and that a replay without a network says the same."""
    (folder / "run42.ranks.csv").write_text(RANKS)
    (folder / "run42.toml").write_text(stage.run_file())
    code, answer = triage(folder, "--playbook", playbook)
    again_code, again = replay_offline(folder / "bundle")
    assert again_code == code
    assert without_times(again) == without_times(answer)
    verdict: dict[str, object] = answer["verdict"]
    return verdict


@pytest.mark.lab
def test_attempts_that_die_at_one_step_are_told_from_a_broken_node(stage: Stage, tmp_path: Path) -> None:
    node = stage.nodes[1]
    for attempt in range(4):
        ago_s = 200 - 50 * attempt
        stage.put(node, f"logs/run42_x/attempt_{attempt}/1/stdout.log", step(10, ago_s), age_s=ago_s)
        if attempt < 3:
            error = 'Traceback (most recent call last):\n  File "train.py", line 8, in step\nValueError: bad shard 17\n'
            stage.put(node, f"logs/run42_x/attempt_{attempt}/1/stderr.log", error, age_s=ago_s)
    verdict = concluded(stage, tmp_path, "restart-loop")
    assert (verdict["conclusion"], verdict["kind"], verdict["ranks"]) == ("same-step", "program_error", [5])
    assert "ValueError: bad shard 17" in str(verdict["cause"])


WORK = "WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=30000)"
TIMEOUT = (
    "[rank{rank}]:[E{at}.000000000 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Watchdog"
    " caught collective operation timeout: {work} ran for 30080 milliseconds before timing out.\n"
)


@pytest.mark.lab
def test_a_lost_gpu_and_the_time_outs_it_led_to_are_one_incident(stage: Stage, tmp_path: Path) -> None:
    """The GPU is lost now; ranks of both nodes give up 30 s later, by what their logs say."""
    stage.nodes[1].append_kernel_log("NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.")
    at = datetime.fromtimestamp(time.time() + 31, UTC).strftime("%m%d %H:%M:%S")
    for rank in (0, 1, 4, 6, 7):
        node = stage.nodes[rank // 4]
        stage.put(node, f"logs/run42_x/attempt_0/{rank % 4}/stderr.log", TIMEOUT.format(rank=rank, at=at, work=WORK))
    stage.put(stage.nodes[0], "logs/run42_x/attempt_0/0/stdout.log", step(7100, 300))
    verdict = concluded(stage, tmp_path, "hang")
    assert (verdict["conclusion"], verdict["kind"], verdict["hosts"]) == ("hardware-fault", "gpu_fault", ["node002"])
    assert "5 times nccl timeout on node[001-002]" in str(verdict["cause"])
