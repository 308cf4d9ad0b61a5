"""One of two nodes does not answer: the triage ends in time, says so, and claims nothing that node could overturn."""

from collections.abc import Callable
from pathlib import Path

import pytest

from .cluster import Cluster
from .driving import replay_offline, triage, without_times, write_run_file
from .node import Node

LIMIT_S = 30.0
"""Less than the run file's own limit: one wait for the silent node is enough."""
CULPRIT = 5

SILENCES: dict[str, Callable[[Node], None]] = {
    "refuses": Node.refuse_ssh,
    "silent": Node.go_silent,
    "commands-hang": Node.hang_commands,
}


@pytest.mark.lab
@pytest.mark.parametrize("way", SILENCES)
def test_the_innocent_half_alone_accuses_nobody(way: str, cluster: Cluster, tmp_path: Path) -> None:
    """The culprit's node is the one that does not answer; the ranks seen only wait."""
    job = cluster.train("sleep", rank=CULPRIT)
    try:
        job.wait_hung()
        write_run_file(cluster, job, tmp_path)
        SILENCES[way](cluster.node("node002"))
        code, answer = triage(tmp_path)
        cluster.node("node002").speak_again()
    finally:
        job.stop()
    assert answer["took_s"] < LIMIT_S
    assert code in {11, 12}
    assert answer["verdict"]["ranks"] == []
    assert answer["coverage"]["processes"]["answered"] == 1
    assert list(answer["coverage"]["processes"]["missing"]) == ["node002"]
    assert answer["unseen_ranks"] == "4-7"
    again_code, again = replay_offline(tmp_path / "bundle")
    assert again_code == code
    assert without_times(again) == without_times(answer)


@pytest.mark.lab
def test_half_the_votes_decide_no_mismatch(cluster: Cluster, tmp_path: Path) -> None:
    """Rank 5 differs from the three seen beside it; the four not seen could side with it."""
    job = cluster.train("extra-all-reduce", rank=CULPRIT)
    try:
        job.wait_hung()
        write_run_file(cluster, job, tmp_path)
        cluster.node("node001").refuse_ssh()
        code, answer = triage(tmp_path)
    finally:
        job.stop()
    assert code == 11, answer["headline"]
    assert answer["verdict"]["grade"] in {None, "undecided"}


@pytest.mark.lab
def test_a_stopped_process_is_a_fact_whoever_else_was_not_seen(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.train("none", rank=CULPRIT)
    try:
        job.wait_steps(8)
        job.freeze_rank(CULPRIT)
        job.wait_hung()
        write_run_file(cluster, job, tmp_path)
        cluster.node("node001").refuse_ssh()
        code, answer = triage(tmp_path)
    finally:
        job.stop()
    assert code == 10, answer["headline"]
    assert answer["verdict"]["ranks"] == [CULPRIT]
    assert answer["verdict"]["grade"] == "likely", "another cause may stand on the node that was not seen"


@pytest.mark.lab
def test_noise_of_shell_start_up_reaches_no_parser(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.train("sleep", rank=CULPRIT)
    try:
        job.wait_hung()
        write_run_file(cluster, job, tmp_path, user=cluster.noisy_user)
        code, answer = triage(tmp_path)
    finally:
        job.stop()
    assert code == 10, answer["headline"]
    assert answer["verdict"]["ranks"] == [CULPRIT]
