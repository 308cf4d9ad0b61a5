"""The other playbooks on real nodes: logs, kernel logs and checkpoint folders as faults leave them, no job running."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from .cluster import Cluster
from .driving import replay_offline, triage, without_times
from .node import TRAINER_UID, Node

STEP = (
    " [{at}] iteration {step:8}/  100000 | consumed samples: {samples:12} | elapsed time per iteration (ms): 50.0 |"
    " learning rate: 2.987E-04 | global batch size:   512 | lm loss: {loss} | loss scale: 1.0 | grad norm: {norm} |"
    " number of skipped iterations:   0 | number of nan iterations: {nan:3} |\n"
)
RUN = """
nodes = "node[001-002]"
[reach]
user = "{user}"
port = {port}
identity = "{key}"
known_hosts = "{known_hosts}"
connect_timeout_s = 3
command_timeout_s = 15
[reach.addresses]
{addresses}
[paths]
logs = "{shared}/run42/logs"
dumps = "{shared}/run42/dumps/rank_"
checkpoints = "{shared}/run42/ckpt"
[ranks]
file = "run42.ranks.csv"
[thresholds]
triage_s = 60
[actions]
exclude = "scontrol update nodename={{host}} state=drain"
"""


def write_run_file(cluster: Cluster, folder: Path) -> None:
    addresses = "\n".join(f'{node.name} = "{node.address}"' for node in cluster.nodes)
    told = {"user": cluster.user, "port": cluster.port, "key": cluster.key, "known_hosts": cluster.known_hosts}
    rows = [f"{rank},node{rank // 4 + 1:03},{rank % 4}" for rank in range(8)]
    (folder / "run42.ranks.csv").write_text("rank,host,local_rank\n" + "\n".join(rows) + "\n")
    (folder / "run42.toml").write_text(RUN.format(addresses=addresses, shared=cluster.shared, **told))


def put(cluster: Cluster, node: Node, path: str, text: str, *, age_s: float = 0.0) -> None:
    """A file under the run's folder of a node, last written so long ago."""
    file = node.inside(cluster.shared / "run42" / path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    for made in (file, *file.parents[: len(Path(path).parts)]):
        os.chown(made, TRAINER_UID, TRAINER_UID)
        os.utime(made, (time.time() - age_s, time.time() - age_s))


def step(number: int, ago_s: float, *, loss: str = "2.104E+00", norm: str = "0.812", nan: int = 0) -> str:
    at = datetime.fromtimestamp(time.time() - ago_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return STEP.format(at=at, step=number, samples=512 * number, loss=loss, norm=norm, nan=nan)


def concluded(cluster: Cluster, folder: Path, playbook: str) -> dict[str, object]:
    """The verdict of a triage, and that a replay without a network says the same."""
    write_run_file(cluster, folder)
    code, answer = triage(folder, "--playbook", playbook)
    again_code, again = replay_offline(folder / "bundle")
    assert again_code == code
    assert without_times(again) == without_times(answer)
    verdict: dict[str, object] = answer["verdict"]
    return verdict


@pytest.mark.lab
def test_attempts_that_die_at_one_step_are_told_from_a_broken_node(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.node("node002")
    for attempt in range(4):
        ago_s = 200 - 50 * attempt
        put(cluster, node, f"logs/run42_x/attempt_{attempt}/1/stdout.log", step(10, ago_s), age_s=ago_s)
        if attempt < 3:
            error = 'Traceback (most recent call last):\n  File "train.py", line 8, in step\nValueError: bad shard 17\n'
            put(cluster, node, f"logs/run42_x/attempt_{attempt}/1/stderr.log", error, age_s=ago_s)
    verdict = concluded(cluster, tmp_path, "restart-loop")
    assert (verdict["conclusion"], verdict["kind"], verdict["ranks"]) == ("same-step", "program_error", [5])
    assert "ValueError: bad shard 17" in str(verdict["cause"])


@pytest.mark.lab
def test_a_loss_that_blew_up_and_the_steps_before(cluster: Cluster, tmp_path: Path) -> None:
    grown = "".join(step(n, 130 - n, norm=f"{0.8 if n < 90 else 0.8 * 1.5 ** (n - 90):.3f}") for n in range(1, 101))
    put(
        cluster,
        cluster.node("node001"),
        "logs/run42_x/attempt_0/0/stdout.log",
        grown + step(101, 20, loss="NAN", nan=1),
    )
    verdict = concluded(cluster, tmp_path, "loss-not-finite")
    assert (verdict["conclusion"], verdict["kind"]) == ("diverging", "loss_not_finite")


@pytest.mark.lab
def test_a_save_that_nobody_writes_any_more(cluster: Cluster, tmp_path: Path) -> None:
    for number, age_s in ((6000, 300), (5000, 900), (4000, 1500)):
        put(cluster, cluster.node("node001"), f"ckpt/iter_{number:07}/__0_0.distcp", "x", age_s=age_s)
    begun = " [2026-03-03 02:50:00] saving checkpoint at iteration    7000 to /c in torch_dist format\n"
    put(cluster, cluster.node("node001"), "logs/run42_x/attempt_0/0/stdout.log", begun + step(7100, 5))
    put(cluster, cluster.node("node002"), "ckpt/.keep", "")
    verdict = concluded(cluster, tmp_path, "checkpoint")
    assert (verdict["conclusion"], verdict["kind"]) == ("saver-gone", "checkpoint_failing")


@pytest.mark.lab
def test_a_checkpoint_folder_that_never_answers(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.node("node002")
    for number, age_s in ((6000, 300), (5000, 900), (4000, 1500)):
        put(cluster, cluster.node("node001"), f"ckpt/iter_{number:07}/__0_0.distcp", "x", age_s=age_s)
    put(cluster, node, "ckpt/.keep", "")
    node.hang_mount(cluster.shared / "run42" / "ckpt")
    verdict = concluded(cluster, tmp_path, "checkpoint")
    assert (verdict["conclusion"], verdict["hosts"]) == ("silent", ["node002"])


@pytest.mark.lab
def test_a_lost_gpu_while_steps_end_is_acted_on_at_the_next_checkpoint(cluster: Cluster, tmp_path: Path) -> None:
    put(cluster, cluster.node("node001"), "logs/run42_x/attempt_0/0/stdout.log", step(7100, 2))
    cluster.node("node002").append_kernel_log("NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.")
    verdict = concluded(cluster, tmp_path, "hardware")
    assert (verdict["conclusion"], verdict["kind"], verdict["hosts"]) == ("act-at-checkpoint", "gpu_fault", ["node002"])


@pytest.mark.lab
def test_a_kernel_log_that_may_not_be_read_is_not_sound(cluster: Cluster, tmp_path: Path) -> None:
    put(cluster, cluster.node("node001"), "logs/run42_x/attempt_0/0/stdout.log", step(7100, 2))
    cluster.node("node002").restrict_kernel_log()
    verdict = concluded(cluster, tmp_path, "hardware")
    assert (verdict["conclusion"], verdict["kind"]) == ("not-enough", None)


WORK = "WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=30000)"
TIMEOUT = (
    "[rank{rank}]:[E{at}.000000000 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Watchdog"
    " caught collective operation timeout: {work} ran for 30080 milliseconds before timing out.\n"
)


@pytest.mark.lab
def test_a_lost_gpu_and_the_time_outs_it_led_to_are_one_incident(cluster: Cluster, tmp_path: Path) -> None:
    """The GPU is lost now; ranks of both nodes give up 30 s later, by what their logs say."""
    cluster.node("node002").append_kernel_log("NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.")
    at = datetime.fromtimestamp(time.time() + 31, UTC).strftime("%m%d %H:%M:%S")
    for rank in (0, 1, 4, 6, 7):
        node = cluster.nodes[rank // 4]
        put(cluster, node, f"logs/run42_x/attempt_0/{rank % 4}/stderr.log", TIMEOUT.format(rank=rank, at=at, work=WORK))
    put(cluster, cluster.node("node001"), "logs/run42_x/attempt_0/0/stdout.log", step(7100, 300))
    verdict = concluded(cluster, tmp_path, "hang")
    assert (verdict["conclusion"], verdict["kind"], verdict["hosts"]) == ("hardware-fault", "gpu_fault", ["node002"])
    assert "5 times nccl timeout on node[001-002]" in str(verdict["cause"])
