"""The lab's nodes: what the other tests of this folder stand on."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from .cluster import Cluster, start_cluster
from .ports import START_S

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab")]


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + START_S
    while not happened():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


XID = "NVRM: Xid (PCI:0000:4e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def test_nodes_have_own_names_processes_and_files(cluster: Cluster) -> None:
    one, two = cluster.nodes
    assert cluster.ssh(one, "hostname").stdout == "node001\n"
    assert cluster.ssh(two, "hostname").stdout == "node002\n"
    seen = cluster.ssh(two, "ps -e -o comm=").stdout.split()
    assert seen.count("node.sh") == 1
    assert not {"python", "pytest"} & set(seen)
    note = cluster.shared / "note"
    assert cluster.ssh(one, f"echo from one > {note}").returncode == 0
    assert cluster.ssh(two, f"cat {note}").returncode == 1
    assert one.inside(note).read_text() == "from one\n"


def test_login_is_without_root(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    assert cluster.ssh(node, "id -un; echo $SHELL").stdout == "trainer\n/bin/sh\n"
    assert cluster.ssh(node, "id -un", user="root").stdout == "root\n"
    assert cluster.ssh(node, "cat /etc/shadow").returncode == 1


def test_a_changed_host_key_is_refused(cluster: Cluster) -> None:
    one, two = cluster.nodes
    keys = cluster.known_hosts.read_text().splitlines()
    first, second = (line.split(" ", 1) for line in keys)
    cluster.known_hosts.write_text(f"{first[0]} {second[1]}\n")
    assert "Host key verification failed" in cluster.ssh(one, "true").stderr
    assert "Host key verification failed" in cluster.ssh(two, "true").stderr


def test_noisy_login_prints_on_both_streams(cluster: Cluster) -> None:
    answer = cluster.ssh(cluster.nodes[0], "echo answer", user=cluster.noisy_user)
    assert answer.stdout.startswith("Loading modules")
    assert answer.stdout.endswith("answer\n")
    assert "Authorised use only" in answer.stderr
    assert "command not found" in answer.stderr


def test_each_node_has_its_own_kernel_log(cluster: Cluster) -> None:
    one, two = cluster.nodes
    logged = datetime.now(UTC)
    one.append_kernel_log(XID)
    stamp, text = cluster.ssh(one, "dmesg --time-format iso").stdout.splitlines()[-1].split(" ", 1)
    assert text == XID
    assert abs(datetime.fromisoformat(stamp.replace(",", ".")) - logged) < timedelta(seconds=5)
    assert cluster.ssh(one, "dmesg --level err --decode").stdout.startswith("kern  :err")
    assert "Xid" not in cluster.ssh(two, "dmesg").stdout
    assert cluster.ssh(one, "journalctl -k").stdout == ""


def test_kernel_log_may_be_for_root_alone(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    node.append_kernel_log(XID)
    node.restrict_kernel_log()
    refused = cluster.ssh(node, "dmesg")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "Operation not permitted" in refused.stderr
    assert XID in cluster.ssh(node, "dmesg", user="root").stdout


def test_refused_ssh(cluster: Cluster) -> None:
    one, two = cluster.nodes
    one.refuse_ssh()
    assert "Connection refused" in cluster.ssh(one, "true").stderr
    assert cluster.ssh(two, "true").returncode == 0
    one.start_ssh()
    assert cluster.ssh(one, "true").returncode == 0


def test_silent_ssh_accepts_and_says_nothing(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    node.go_silent()
    with socket.create_connection((node.address, node.port), timeout=0.3) as connection:
        with pytest.raises(TimeoutError):
            connection.recv(1)
        node.speak_again()
        connection.settimeout(START_S)
        assert connection.recv(4) == b"SSH-"


def test_commands_that_never_answer(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    node.hang_commands()
    with cluster.asking(node, "echo answer") as asked:
        wait_for(lambda: "Accepted publickey for trainer" in (node.own / "sshd.log").read_text())
        assert cluster.ssh(node, "echo answer", user="root").stdout == "answer\n"
        assert asked.poll() is None
        assert asked.stdout is not None
        assert select.select([asked.stdout], [], [], 0)[0] == []


def test_hung_mount_blocks_whoever_looks(cluster: Cluster) -> None:
    node = cluster.nodes[0]
    folder = cluster.shared / "dataset"
    node.inside(folder).mkdir()
    node.hang_mount(folder)
    with cluster.asking(node, f"ls {folder}") as asked:
        wait_for(lambda: any((each.name, each.state) == ("ls", "D") for each in node.processes()))
        assert "D" in cluster.ssh(node, "ps -C ls -o state=").stdout
        assert asked.poll() is None


def test_node_without_py_spy() -> None:
    with start_cluster(1, py_spy=False) as cluster:
        assert cluster.ssh(cluster.nodes[0], "py-spy --version").returncode == 127


@pytest.mark.skipif(not shutil.which("sudo"), reason="sudo is not installed")
@pytest.mark.parametrize("allowed", [False, True])
def test_sudo_without_password(allowed: bool) -> None:
    with start_cluster(1, sudo=allowed) as cluster:
        answer = cluster.ssh(cluster.nodes[0], "sudo -n id -un")
        assert answer.stdout == ("root\n" if allowed else "")


def test_nothing_is_left_after_a_failure() -> None:
    left: list[Path] = []

    def fail() -> None:
        with start_cluster(2) as cluster:
            left.append(cluster.shared.parent)
            left.extend(Path(f"/proc/{process.host_pid}") for node in cluster.nodes for process in node.processes())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(left) >= 7
    assert not [path for path in left if path.exists()]
    assert str(left[0]) not in Path("/proc/self/mountinfo").read_text()


def test_nodes_end_with_the_program_that_started_them() -> None:
    program = (
        f"import sys, time; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.lab.cluster import start_cluster\n"
        "with start_cluster(1) as cluster:\n"
        "    print(cluster.nodes[0].init, cluster.shared.parent, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout
        init, lab = started.stdout.readline().split()
        ended = os.pidfd_open(int(init))
        started.send_signal(signal.SIGKILL)
    try:
        assert select.select([ended], [], [], START_S)[0], "the node outlived its program"
    finally:
        os.close(ended)
        shutil.rmtree(lab)
