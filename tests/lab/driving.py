"""Drives the installed `oncall` command against the lab."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .cluster import Cluster
from .job import Job

ONCALL = str(Path(sys.executable).with_name("oncall"))


def write_run_file(cluster: Cluster, job: Job, folder: Path, *, user: str | None = None, more: str = "") -> Path:
    """The run file of a job: how to log in, where the job writes, and thresholds that suit steps of 50 ms."""
    addresses = "\n".join(f'{node.name} = "{node.address}"' for node in cluster.nodes)
    path = folder / "run42.toml"
    path.write_text(
        f"""
nodes = "node[001-002]"
[reach]
user = "{user or cluster.user}"
port = {cluster.port}
identity = "{cluster.key}"
known_hosts = "{cluster.known_hosts}"
connect_timeout_s = 3
command_timeout_s = 10
[reach.addresses]
{addresses}
[paths]
logs = "{job.log_dir}"
dumps = "{job.dump_prefix}"
[thresholds]
stalled_s = 3
triage_s = 40
[actions]
exclude = "scontrol update nodename={{host}} state=drain reason={{reason}}"
{more}
"""
    )
    return path


def triage(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run `oncall run42 --triage --json` in a folder; returns exit code and answer."""
    argv = [ONCALL, "run42", "--triage", "--json", "--bundle", str(folder / "bundle"), *options]
    ended = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    assert ended.stdout, ended.stderr
    answer: dict[str, Any] = json.loads(ended.stdout)
    return ended.returncode, answer


def replay_offline(bundle: Path) -> tuple[int, dict[str, Any]]:
    """Replay a bundle in a network namespace that has no network."""
    argv = ["unshare", "--net", ONCALL, "replay", str(bundle), "--json"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    answer: dict[str, Any] = json.loads(ended.stdout)
    return ended.returncode, answer


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    """A report without what a replay may not share: how long it took, and where the folder lies."""
    return {key: value for key, value in answer.items() if key not in {"took_s", "bundle"}}
