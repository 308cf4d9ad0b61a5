"""Each way to fail really hangs the job, and leaves the stacks and dumps that it should."""

import json
import pickle
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .cluster import Cluster
from .job import FaultKind, Job
from .node import Node

pytestmark = pytest.mark.lab

CULPRIT = 3
OTHERS = {0, 1, 2}
ALL_REDUCE = "gloo:all_reduce"

Call = tuple[str, str, list[int], str]


@pytest.fixture
def train(cluster: Cluster) -> Iterator[Callable[..., Job]]:
    """Start a job of two ranks a node that is stopped at the end."""
    started: list[Job] = []

    def start(fault: FaultKind = "none", *, watchdog: bool = False) -> Job:
        job = cluster.train(fault, rank=CULPRIT, ranks_per_node=2, stall_seconds=1.5, watchdog=watchdog)
        started.append(job)
        return job

    yield start
    for job in started:
        job.stop()


def stacks(cluster: Cluster, job: Job) -> dict[int, list[str]]:
    """Rank → the functions of its main thread, innermost first, as py-spy sees them through SSH."""
    found = {}
    for rank, (node, pid) in job.pids().items():
        threads = json.loads(cluster.ssh(node, f"py-spy dump --nonblocking --json --pid {pid}").stdout)
        found[rank] = next([f["name"] for f in t["frames"]] for t in threads if t["thread_name"] == "MainThread")
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


def test_healthy_job_goes_on_and_dumps_when_asked(cluster: Cluster, train: Callable[..., Job]) -> None:
    job = train()
    job.wait_steps(3)
    assert job.pids().keys() == OTHERS | {CULPRIT}
    assert not job.dumps()
    for rank, (node, pid) in job.pids().items():
        environment = cluster.ssh(node, f"tr '\\0' '\\n' < /proc/{pid}/environ").stdout.splitlines()
        assert {f"RANK={rank}", f"LOCAL_RANK={rank % 2}", "WORLD_SIZE=4"} <= set(environment)
    node, _ = job.pids()[CULPRIT]
    cluster.ssh(node, f"echo 1 > {job.pipe_prefix}{CULPRIT}.pipe")
    job.wait_dumps({CULPRIT})
    job.wait_steps(job.last_step() + 3)
    assert job.dumps().keys() == {CULPRIT}


@pytest.mark.parametrize("fault", ["sleep", "lock", "dataloader", "hung-mount"])
def test_culprit_stands_before_the_collective(fault: FaultKind, cluster: Cluster, train: Callable[..., Job]) -> None:
    job = train(fault)
    job.wait_hung()
    wait = ("count_tokens", ALL_REDUCE, [1024], "Float")
    assert pending(job) == dict.fromkeys(OTHERS, wait) | {CULPRIT: None}
    seen = stacks(cluster, job)
    assert all(seen[rank][0] == "all_reduce" and "count_tokens" in seen[rank] for rank in OTHERS)
    stands_in = "_MultiProcessingDataLoaderIter._try_get_data" if fault == "dataloader" else "fetch_shard"
    assert stands_in in seen[CULPRIT]
    assert state(cluster, *job.pids()[CULPRIT]) == ("D" if fault == "hung-mount" else "S")
    assert job.last_step() == job.plan.step - 1


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
def test_culprit_issues_another_collective(fault: FaultKind, cluster: Cluster, train: Callable[..., Job]) -> None:
    job = train(fault)
    job.wait_hung()
    assert pending(job) == MISMATCHES[fault]
    seen = stacks(cluster, job)
    assert all(caller in seen[rank] for rank, (caller, *_) in MISMATCHES[fault].items())
    assert job.last_step() == job.plan.step - 1


def test_one_never_joins_the_first_group(cluster: Cluster, train: Callable[..., Job]) -> None:
    job = train("init")
    job.wait_hung()
    seen = stacks(cluster, job)
    assert "fetch_tokenizer" in seen[CULPRIT]
    assert all("init_process_group" in seen[rank] for rank in OTHERS)
    assert not job.dumps()


def test_frozen_rank(cluster: Cluster, train: Callable[..., Job]) -> None:
    job = train()
    job.wait_steps(1)
    job.freeze_rank(CULPRIT)
    job.wait_hung()
    assert job.dumps().keys() == OTHERS
    assert all(pending(job).values())
    node, pid = job.pids()[CULPRIT]
    assert state(cluster, node, pid) == "T"
    assert "main" in stacks(cluster, job)[CULPRIT]


def test_lost_rank(cluster: Cluster, train: Callable[..., Job]) -> None:
    job = train()
    job.wait_steps(1)
    node, pid = job.pids()[CULPRIT]
    job.kill_rank(CULPRIT)
    job.wait_hung()
    assert job.dumps().keys() == OTHERS
    assert all(pending(job).values())
    assert job.pids().keys() == OTHERS
    assert state(cluster, node, pid) == ""
    assert not any(job.log(rank, "stderr") for rank in OTHERS)


def test_restarting_job(train: Callable[..., Job]) -> None:
    job = train("restarting")
    job.wait_attempt(1)
    assert "ValueError: batch is not finite" in job.log(CULPRIT, "stderr", attempt=0)
    job.wait_attempt(2)


def test_watchdog_lines(train: Callable[..., Job]) -> None:
    job = train("sleep", watchdog=True)
    job.wait_hung()
    for rank in OTHERS:
        text = job.log(rank, "stderr")
        assert re.search(r"SeqNum=19, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout\(ms\)=1500\)", text)
        assert f"(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 19" in text
        assert "last enqueued work: 19, last started work: -1 (), last completed work: 18" in text
    text = job.log(CULPRIT, "stderr")
    assert "Watchdog caught" not in text
    assert "due to a collective timeout from  rank 0" in text


@pytest.mark.parametrize("fault", ["none", "hung-mount"])
def test_py_spy_on_a_rank_that_cannot_run(fault: FaultKind, cluster: Cluster, train: Callable[..., Job]) -> None:
    """What a probe stands on: a frozen or D-state rank answers only --nonblocking, and no attempt changes its state."""
    job = train(fault)
    if fault == "none":
        job.wait_steps(1)
        job.freeze_rank(CULPRIT)
    job.wait_hung()
    node, pid = job.pids()[CULPRIT]
    before = state(cluster, node, pid)
    if fault == "none":
        assert "Failed to suspend process" in cluster.ssh(node, f"py-spy dump --pid {pid}").stderr
    else:
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.ssh(node, f"py-spy dump --pid {pid}", timeout=1)
    assert "MainThread" in cluster.ssh(node, f"py-spy dump --nonblocking --pid {pid}").stdout
    assert state(cluster, node, pid) == before
