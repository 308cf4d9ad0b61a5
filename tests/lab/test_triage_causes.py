"""`oncall run42 --triage --json` on real jobs: for each fault that was injected, the right kind, rank and host."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from .cluster import Cluster
from .driving import replay_offline, triage, without_times, write_run_file
from .job import FaultKind, Job

CULPRIT = 5
HOST = "node002"


def hang(job: Job) -> None:
    job.wait_hung()


def freeze(job: Job) -> None:
    job.wait_steps(8)
    job.freeze_rank(CULPRIT)
    job.wait_hung()


def lose_gpu(job: Job) -> None:
    job.wait_steps(8)
    job.node_of(CULPRIT).append_kernel_log(
        "NVRM: Xid (PCI:0000:4f:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    )
    job.kill_rank(CULPRIT)
    job.wait_hung()


def stall_network(job: Job) -> None:
    job.wait_steps(8)
    job.stall_transport(CULPRIT)
    job.wait_hung()


def start_again(job: Job) -> None:
    job.wait_attempt(1)


def run_on(job: Job) -> None:
    job.wait_steps(20)


@dataclass(frozen=True)
class Scenario:
    """A fault, how it comes about, and what a right answer says. `function` is the one to blame, where there is one."""

    fault: FaultKind
    bring_about: Callable[[Job], None]
    exit_code: int
    kind: str
    ranks: tuple[int, ...] = (CULPRIT,)
    hosts: tuple[str, ...] = (HOST,)
    function: str | None = None


SCENARIOS = {
    "extra-all-reduce": Scenario("extra-all-reduce", hang, 10, "extra_collective", function="_check_batch"),
    "asleep": Scenario("sleep", hang, 10, "stuck_before_collective", function="fetch_shard"),
    "lock": Scenario("lock", hang, 10, "stuck_before_collective", function="fetch_shard"),
    "dataloader": Scenario("dataloader", hang, 10, "stuck_before_collective"),
    "initialisation": Scenario("init", hang, 10, "init_stuck", function="fetch_tokenizer"),
    "stopped-process": Scenario("none", freeze, 10, "host_frozen"),
    "xid-79": Scenario("none", lose_gpu, 10, "gpu_fault"),
    "network": Scenario("none", stall_network, 11, "transport_stall", ranks=(), hosts=()),
    "restarting": Scenario("restarting", start_again, 10, "restarting", ranks=(), hosts=()),
    "healthy": Scenario("none", run_on, 0, "none", ranks=(), hosts=()),
}


@pytest.mark.lab
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_injected_fault_is_named(name: str, cluster: Cluster, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    job = cluster.train(scenario.fault, rank=CULPRIT)
    try:
        scenario.bring_about(job)
        write_run_file(cluster, job, tmp_path)
        code, answer = triage(tmp_path)
    finally:
        job.stop()
    verdict = answer["verdict"]
    assert (verdict["kind"], tuple(verdict["ranks"]), tuple(verdict["hosts"])) == (
        scenario.kind,
        scenario.ranks,
        scenario.hosts,
    ), answer["headline"]
    assert code == scenario.exit_code
    if scenario.function:
        assert scenario.function in verdict["frame"]
    if name == "dataloader":
        assert verdict["doing"] == "dataloader_wait"
        assert verdict["conclusion"] == "data-of-few"
    again_code, again = replay_offline(tmp_path / "bundle")
    assert again_code == code
    assert without_times(again) == without_times(answer)
