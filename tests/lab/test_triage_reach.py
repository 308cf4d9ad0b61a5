"""What a login may not do, what a node lacks, and what an interrupt leaves."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .cluster import Cluster, start_cluster
from .driving import ONCALL, replay_offline, triage, write_run_file

CULPRIT = 5


@pytest.mark.lab
def test_py_spy_is_sent_along_where_a_node_has_none(lab: None, tmp_path: Path) -> None:
    with start_cluster(2, py_spy=False) as cluster:
        job = cluster.train("init", rank=CULPRIT)
        job.wait_hung()
        write_run_file(cluster, job, tmp_path)
        for node in cluster.nodes:
            assert cluster.ssh(node, "command -v py-spy").returncode != 0
        code, answer = triage(tmp_path)
        left = [cluster.ssh(node, "ls /tmp").stdout for node in cluster.nodes]
    assert code == 10, answer["headline"]
    assert answer["verdict"]["ranks"] == [CULPRIT]
    assert "fetch_tokenizer" in answer["verdict"]["frame"]
    assert not any("py-spy" in text for text in left)


@pytest.mark.lab
def test_a_host_key_that_is_not_known_is_not_trusted(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.train("sleep", rank=CULPRIT)
    job.wait_hung()  # or the triage would wait for dumps
    path = write_run_file(cluster, job, tmp_path)
    known = tmp_path / "known_hosts"
    lines = cluster.known_hosts.read_text().splitlines()
    known.write_text("\n".join(line for line in lines if "127.0.2.2" not in line) + "\n")
    path.write_text(path.read_text().replace(str(cluster.known_hosts), str(known)))
    code, answer = triage(tmp_path)
    assert code in {11, 12}, answer["headline"]
    assert list(answer["coverage"]["processes"]["missing"]) == ["node002"]
    assert "ssh-keyscan" in answer["coverage"]["processes"]["missing"]["node002"]


@pytest.mark.lab
def test_the_rank_map_is_found_from_the_processes(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.train("none")
    job.wait_steps(3)
    write_run_file(cluster, job, tmp_path)
    ended = subprocess.run(
        [ONCALL, "ranks", "run42", "--json", "--save"], cwd=tmp_path, capture_output=True, check=True
    )
    found = json.loads(ended.stdout)
    assert found["world_size"] == 8
    assert {row["rank"]: (row["host"], row["local_rank"]) for row in found["ranks"]} == {
        rank: (f"node{rank // 4 + 1:03}", rank % 4) for rank in range(8)
    }
    assert json.loads((tmp_path / "run42.ranks.json").read_text()) == found


@pytest.mark.lab
def test_an_interrupted_triage_leaves_a_bundle_that_replays(cluster: Cluster, tmp_path: Path) -> None:
    job = cluster.train("sleep", rank=CULPRIT)
    job.wait_hung()
    write_run_file(cluster, job, tmp_path)
    cluster.node("node002").hang_commands()
    argv = [ONCALL, "run42", "--triage", "--json", "--bundle", str(tmp_path / "bundle")]
    process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    index = tmp_path / "bundle/evidence/processes/1/index.jsonl"
    while not (index.exists() and '"ok"' in index.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == ""
    assert "oncall replay" in err
    assert "Traceback" not in err
    code, answer = replay_offline(tmp_path / "bundle")
    assert code in {11, 12}
    assert answer["coverage"]["processes"]["answered"] == 1, answer["coverage"]


@pytest.mark.lab
@pytest.mark.parametrize("way", ["ssh_config", "jump"])
def test_nodes_are_reached_by_ssh_config_and_through_a_jump_host(way: str, cluster: Cluster, tmp_path: Path) -> None:
    first, second = cluster.nodes
    ways = {
        "ssh_config": f'ssh_config = "{cluster.ssh_config}"\n',
        "jump": (
            f'port = {cluster.port}\nidentity = "{cluster.key}"\nknown_hosts = "{cluster.known_hosts}"\n'
            f'jump = "{first.address}"\n[reach.addresses]\nnode002 = "{second.address}"\n'
        ),
    }
    (tmp_path / "run42.toml").write_text(f'nodes = "node002"\n[reach]\nuser = "{cluster.user}"\n{ways[way]}')
    _, answer = triage(tmp_path)
    assert answer["coverage"]["processes"]["answered"] == 1, answer["coverage"]
