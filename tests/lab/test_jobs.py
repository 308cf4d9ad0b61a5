"""Each way to fail really hangs the job, and leaves the stacks and dumps that it should."""

import itertools
import json
import pickle
import subprocess
from typing import Any, Unpack

import pytest

from .cluster import Cluster
from .job import FaultKind, Job, Options
from .node import Node

pytestmark = pytest.mark.lab

CULPRIT = 3
OTHERS = {0, 1, 2}
ALL_REDUCE = "gloo:all_reduce"

Call = tuple[str, str, list[int], str]


def train(cluster: Cluster, fault: FaultKind = "none", **options: Unpack[Options]) -> Job:
    """Two ranks on each of two nodes."""
    options |= {"rank": CULPRIT, "ranks_per_node": 2}
    return cluster.train(fault, **options)


def stacks(cluster: Cluster, job: Job) -> dict[int, list[str]]:
    """Rank → the functions of its main thread, innermost first, as py-spy sees them through SSH."""
    ranks = {(node.name, pid): rank for rank, (node, pid) in job.pids().items()}
    found = {}
    for node in cluster.nodes:
        pids = " ".join(str(pid) for name, pid in ranks if name == node.name)
        answer = cluster.ssh(node, f"for pid in {pids}; do py-spy dump --nonblocking --json --pid $pid; echo ,; done")
        for thread in itertools.chain.from_iterable(json.loads(f"[{answer.stdout.rstrip().rstrip(',')}]")):
            if thread["thread_name"] == "MainThread":
                found[ranks[node.name, thread["pid"]]] = [frame["name"] for frame in thread["frames"]]
    return found


def pending(job: Job) -> dict[int, Call | None]:
    """Rank → the collective it waits in, by its dump: calling function of train.py, operation, shape, dtype."""
    found: dict[int, Call | None] = {}
    for rank, file in job.dumps().items():
        entries: list[dict[str, Any]] = pickle.loads(file.read_bytes())["entries"]
        waiting = [entry for entry in entries if not entry["retired"]]
        assert len(waiting) <= 1
        found[rank] = None
        for entry in waiting:
            caller = next(frame["name"] for frame in entry["frames"] if frame["filename"].endswith("/train.py"))
            found[rank] = (caller, entry["profiling_name"], entry["input_sizes"][0], entry["input_dtypes"][0])
    return found


def state(cluster: Cluster, node: Node, pid: int) -> str:
    return cluster.ssh(node, f"ps -o state= -p {pid}").stdout.strip()


@pytest.mark.parametrize("warm", [False, True])
def test_healthy_job_goes_on_and_dumps_when_asked(warm: bool, cluster: Cluster) -> None:
    job = train(cluster, warm=warm, stall_seconds=60)  # so that the only dump is the one asked for
    job.wait_steps(3)
    assert job.pids().keys() == OTHERS | {CULPRIT}
    assert not job.dumps()
    for rank, (node, pid) in job.pids().items():
        environment = cluster.ssh(node, f"tr '\\0' '\\n' < /proc/{pid}/environ").stdout.splitlines()
        assert {f"RANK={rank}", f"LOCAL_RANK={rank % 2}", "WORLD_SIZE=4"} <= set(environment)
        parent, command = cluster.ssh(node, f"ps -o ppid=,args= -p {pid}").stdout.split(maxsplit=1)
        assert command.endswith(f"python -u {node.training}/train.py\n")
        assert "torchrun" in cluster.ssh(node, f"ps -o args= -p {parent}").stdout
    node, _ = job.pids()[CULPRIT]
    cluster.ssh(node, f"echo 1 > {job.pipe_prefix}{CULPRIT}.pipe")
    job.wait_dumps({CULPRIT})
    job.wait_steps(job.last_step() + 3)
    assert job.dumps().keys() == {CULPRIT}


@pytest.mark.parametrize("fault", ["sleep", "lock", "dataloader"])
def test_culprit_stands_before_the_collective(fault: FaultKind, cluster: Cluster) -> None:
    job = train(cluster, fault, watchdog=True)
    job.wait_hung()
    wait = ("count_tokens", ALL_REDUCE, [1024], "Float")
    assert pending(job) == dict.fromkeys(OTHERS, wait) | {CULPRIT: None}
    seen = stacks(cluster, job)
    assert all(seen[rank][0] == "all_reduce" and "count_tokens" in seen[rank] for rank in OTHERS)
    stands_in = "_MultiProcessingDataLoaderIter._try_get_data" if fault == "dataloader" else "fetch_shard"
    assert stands_in in seen[CULPRIT]
    assert state(cluster, *job.pids()[CULPRIT]) == "S"
    assert job.last_step() == job.plan.step - 1
    assert_watchdog_blames_no_rank_but_the_waiting(job)


def assert_watchdog_blames_no_rank_but_the_waiting(job: Job) -> None:
    sequence = 2 * (job.plan.step - 1) + 1  # count_tokens and reduce_loss in each full step
    for rank in OTHERS:
        text = job.log(rank, "stderr")
        assert f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={sequence}" in text
        assert f"failure detected by watchdog at work sequence id: {sequence}" in text
        assert f"last enqueued work: {sequence}, last started work: -1 (), last completed work: {sequence - 1}" in text
    text = job.log(CULPRIT, "stderr")
    assert "Watchdog caught" not in text
    assert "due to a collective timeout from  rank 0" in text


MISMATCHES: dict[FaultKind, dict[int, Call]] = {
    "extra-all-reduce": {
        **dict.fromkeys(OTHERS, ("count_tokens", ALL_REDUCE, [1024], "Float")),
        CULPRIT: ("_check_batch", ALL_REDUCE, [1], "Float"),
    },
    "skip-all-reduce": {
        **dict.fromkeys({0, 2}, ("reduce_loss", ALL_REDUCE, [1], "Float")),
        1: ("sync_gradients", ALL_REDUCE, [64, 32], "Float"),
        CULPRIT: ("sync_gradients", ALL_REDUCE, [64], "Float"),
    },
    "size": {
        **dict.fromkeys(OTHERS, ("count_tokens", ALL_REDUCE, [1024], "Float")),
        CULPRIT: ("count_tokens", ALL_REDUCE, [960], "Float"),
    },
    "dtype": {
        **dict.fromkeys(OTHERS, ("reduce_loss", ALL_REDUCE, [1], "Float")),
        CULPRIT: ("reduce_loss", ALL_REDUCE, [1], "Double"),
    },
    "type": {
        **dict.fromkeys(OTHERS, ("count_tokens", ALL_REDUCE, [1024], "Float")),
        CULPRIT: ("count_tokens", "gloo:broadcast", [1024], "Float"),
    },
}


@pytest.mark.parametrize("fault", MISMATCHES)
def test_culprit_issues_another_collective(fault: FaultKind, cluster: Cluster) -> None:
    job = train(cluster, fault)
    job.wait_hung()
    assert pending(job) == MISMATCHES[fault]
    seen = stacks(cluster, job)
    assert all(caller in seen[rank] for rank, (caller, *_) in MISMATCHES[fault].items())
    assert job.last_step() == job.plan.step - 1


def test_one_never_joins_the_first_group(cluster: Cluster) -> None:
    job = train(cluster, "init")
    job.wait_hung()
    seen = stacks(cluster, job)
    assert "fetch_tokenizer" in seen[CULPRIT]
    assert all("init_process_group" in seen[rank] for rank in OTHERS)
    assert not job.dumps()


def test_rank_in_state_d_answers_only_nonblocking_py_spy(cluster: Cluster) -> None:
    job = train(cluster, "hung-mount")
    job.wait_hung()
    assert pending(job)[CULPRIT] is None
    node, pid = job.pids()[CULPRIT]
    assert state(cluster, node, pid) == "D"
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.ssh(node, f"py-spy dump --pid {pid}", timeout=1)
    assert "fetch_shard" in stacks(cluster, job)[CULPRIT]
    assert state(cluster, node, pid) == "D"


def test_frozen_rank_answers_only_nonblocking_py_spy(cluster: Cluster) -> None:
    job = train(cluster)
    job.wait_steps(1)
    job.freeze_rank(CULPRIT)
    job.wait_hung()
    assert job.dumps().keys() == OTHERS
    assert all(pending(job).values())
    node, pid = job.pids()[CULPRIT]
    assert state(cluster, node, pid) == "T"
    assert "Failed to suspend process" in cluster.ssh(node, f"py-spy dump --pid {pid}").stderr
    assert "main" in stacks(cluster, job)[CULPRIT]
    assert state(cluster, node, pid) == "T"


def test_lost_rank(cluster: Cluster) -> None:
    job = train(cluster)
    job.wait_steps(1)
    node, pid = job.pids()[CULPRIT]
    job.kill_rank(CULPRIT)
    job.wait_hung()
    assert job.dumps().keys() == OTHERS
    assert all(pending(job).values())
    assert job.pids().keys() == OTHERS
    assert state(cluster, node, pid) == ""
    assert not any(job.log(rank, "stderr") for rank in OTHERS)


def test_restarting_job(cluster: Cluster) -> None:
    job = train(cluster, "restarting")
    job.wait_attempt(1)
    assert "ValueError: batch is not finite" in job.log(CULPRIT, "stderr", attempt=0)
    job.wait_attempt(2)
