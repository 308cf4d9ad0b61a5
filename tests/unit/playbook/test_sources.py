"""Evidence straight from the nodes: a node that was silent is asked again for all that it owes."""

import shutil
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncall.bundle.evidence import Outcome
from oncall.bundle.store import Bundle, Manifest
from oncall.console.progress import take_in_all
from oncall.console.snapshot import Snapshot, Start, probe_of
from oncall.playbook.events import ProbeFinished, WalkEvent
from oncall.playbook.sources import LiveSource
from oncall.probes.catalogue import PROBES
from oncall.reach.protocol import Ended, Limits
from oncall.readings.case import Case
from oncall.report.journal import journal_lines
from oncall.run.model import Run

HOSTS = ("node001", "node002")


class Nodes:
    """Two nodes without py-spy of their own; one of them cannot be reached until it is forgotten."""

    def __init__(self) -> None:
        self.silent = {"node002"}
        self.sent: list[tuple[str, bool]] = []

    async def run(self, host: str, script: bytes, sink: Callable[[bytes], None], _limits: Limits) -> Ended:
        """Says which boundary the script names, and whether py-spy came along."""
        if host in self.silent:
            return Ended(Outcome.TIMED_OUT, datetime.now(UTC), 6.0, "no SSH greeting within 6 s")
        words = dict(line.split(b"=", 1) for line in script.split(b"\noncall_probe()")[0].split(b"\n"))
        came = words.get(b"PY_SPY_BASE64", b"''") != b"''"
        self.sent.append((host, came))
        name = b"stack\tpid=7\trank=0" if came else b"no-py-spy"
        sink(b"\n%s\t%s\n" % (words[b"BOUNDARY"], name) + b"\n%s\tend\n" % words[b"BOUNDARY"])
        return Ended(Outcome.OK, datetime.now(UTC), 0.1, exit_code=0)

    def forget(self, host: str) -> None:
        """It can be reached now."""
        self.silent.discard(host)

    async def close(self) -> None:
        """Nothing is held open."""


async def test_a_probe_that_is_put_again_and_again_tells_only_what_is_new(tmp_path: Path) -> None:
    """As while dumps are awaited: the timeline does not fill with the same answers."""
    nodes, heard = Nodes(), list[WalkEvent]()
    bundle = Bundle.create(Manifest(run="run42", started=datetime.now(UTC)), "", tmp_path / "bundle")
    case = Case(Run(nodes="node[001-002]"), datetime.now(UTC))
    source = LiveSource(bundle, nodes, HOSTS, heard.append, time.monotonic() + 60.0)
    await source.put(PROBES["dumps"], case, keep_as="dumps_again")
    told = len(heard)
    for _ in range(3):
        await source.put(PROBES["dumps"], case, keep_as="dumps_again")
    assert len(heard) == told
    nodes.forget("node002")
    await source.put(PROBES["dumps"], case, keep_as="dumps_again")
    await source.close()
    words = [line.text for line in journal_lines(heard)]
    assert words == ["node002: no SSH greeting within 6 s", "1 of 2 nodes answered", "2 of 2 nodes answered"]
    start = Start(run="run42", started=datetime.now(UTC), bundle="b", live=True, read_only=False)
    progress = probe_of(take_in_all(Snapshot(start), heard), "dumps")
    assert progress is not None
    assert (progress.asked, progress.answered, dict(progress.missing), progress.finished) == (2, 2, {}, True)


@pytest.mark.skipif(
    shutil.which("py-spy", path=str(Path(sys.executable).parent)) is None, reason="no py-spy to send along"
)
async def test_a_node_that_is_asked_again_gets_py_spy_too(tmp_path: Path) -> None:
    nodes, heard = Nodes(), list[WalkEvent]()
    bundle = Bundle.create(Manifest(run="run42", started=datetime.now(UTC)), "", tmp_path / "bundle")
    case = Case(Run(nodes="node[001-002]"), datetime.now(UTC))
    source = LiveSource(bundle, nodes, HOSTS, heard.append, time.monotonic() + 60.0)
    first = await source.evidence("stacks", case)
    assert first is not None
    assert first.coverage.missing == {"node002": "no SSH greeting within 6 s"}
    await source.ask_again("node002", case)
    whole = await source.evidence("stacks", case)
    await source.close()
    assert whole is not None
    assert whole.coverage.complete
    assert [host for host, _ in whole.all_parts("stack")] == list(HOSTS)
    assert nodes.sent == [("node001", False), ("node001", True), ("node002", False), ("node002", True)]
    assert [event.answered for event in heard if isinstance(event, ProbeFinished)][-1] == len(HOSTS)
