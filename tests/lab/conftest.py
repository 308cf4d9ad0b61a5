"""Fixtures of the lab; its tests need root, OpenSSH, util-linux and PyTorch."""

import importlib.util
import os
import shutil
from collections.abc import Iterator

import pytest

from .cluster import Cluster, start_cluster

TOOLS = ("unshare", "nsenter", "setpriv", "ssh", "ssh-keygen", "sshd", "dmesg")


@pytest.fixture(scope="session")
def lab() -> None:
    """Skip where the lab cannot run."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    if lacking := [tool for tool in TOOLS if not shutil.which(tool, path=path)]:
        pytest.skip(f"the lab needs {', '.join(lacking)}")
    if not importlib.util.find_spec("torch"):
        pytest.skip("the lab needs PyTorch")


@pytest.fixture
def cluster(lab: None) -> Iterator[Cluster]:
    """Two fresh nodes."""
    with start_cluster(2) as running:
        yield running
