"""A dump on demand: through the pipes, after confirmation, while the job runs on."""

import json
import subprocess
from pathlib import Path

import pytest

from .cluster import Cluster
from .driving import ONCALL, write_run_file


def dump(folder: Path, typed: str, bundle: str = "bundle") -> "subprocess.CompletedProcess[str]":
    argv = [ONCALL, "dump", "run42", "--json", "--bundle", str(folder / bundle)]
    return subprocess.run(argv, cwd=folder, input=typed, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.lab
def test_every_rank_dumps_and_the_job_runs_on(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.train("none")
    job.wait_steps(5)
    path = write_run_file(cluster, job, tmp_path)
    path.write_text(path.read_text().replace("[paths]", f'[paths]\npipes = "{job.pipe_prefix}"'))
    refused = dump(tmp_path, "no\n")
    assert refused.returncode == 2
    assert "nothing was done" in refused.stderr
    assert job.dumps() == {}
    before = job.last_step()
    ended = dump(tmp_path, "run42\n")
    assert ended.returncode in {0, 12}, "ranks of a running job may wait at any moment, which proves nothing"
    answer = json.loads(ended.stdout)
    assert sorted(job.dumps()) == list(range(8))
    missed = [row["reason"] for row in answer["coverage"]["absent"]]
    assert all("older than those of its peers" in reason for reason in missed), "ranks dump one after the other"
    assert answer["origins"] == []
    job.wait_steps(before + 10)
    again = dump(tmp_path, "run42\n", "again")
    assert again.returncode in {0, 12}, again.stderr
    assert f"--since {tmp_path / 'again'}" in again.stderr
    argv = [ONCALL, "fr", "--json", str(tmp_path / "again"), "--since", str(tmp_path / "bundle")]
    compared = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False)
    movement = json.loads(compared.stdout)["movement"]
    assert movement["moved"] == list(range(8))


@pytest.mark.lab
def test_without_pipes_it_says_what_the_job_needs(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.train("none")
    job.wait_steps(3)
    path = write_run_file(cluster, job, tmp_path)
    path.write_text(path.read_text().replace("[paths]", '[paths]\npipes = "/nowhere/pipe_"'))
    ended = dump(tmp_path, "run42\n")
    assert ended.returncode == 12
    assert "no pipe at /nowhere/pipe_0.pipe" in ended.stderr
    assert "TORCH_NCCL_DEBUG_INFO_PIPE_FILE" in ended.stderr
