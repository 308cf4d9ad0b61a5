"""Fixtures of the lab; its tests need root, OpenSSH, util-linux and PyTorch."""

import importlib.util
import os
import shutil
from collections.abc import Iterator

import pytest

from .cluster import Cluster, start_cluster


def _lacking() -> str | None:
    if os.geteuid() != 0:
        return "the lab needs root"
    tools = [name for name in ("unshare", "nsenter", "setpriv", "ssh", "ssh-keygen", "sshd") if not _found(name)]
    if tools:
        return f"the lab needs {', '.join(tools)}"
    return None if importlib.util.find_spec("torch") else "the lab needs PyTorch"


def _found(tool: str) -> bool:
    return shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is not None


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two fresh nodes."""
    if reason := _lacking():
        pytest.skip(reason)
    with start_cluster(2) as running:
        yield running
