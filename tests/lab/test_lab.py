"""The lab's own parts: what the other tests of this folder stand on."""

import pytest

from .cluster import Cluster

pytestmark = pytest.mark.lab


def test_nodes_have_own_names_and_processes(cluster: Cluster) -> None:
    one, two = cluster.nodes
    assert cluster.ssh(one, "hostname").stdout == "node001\n"
    assert cluster.ssh(two, "hostname").stdout == "node002\n"
    seen = cluster.ssh(two, "ps -e -o comm=").stdout.split()
    assert seen.count("node.sh") == 1
    assert "pytest" not in seen
