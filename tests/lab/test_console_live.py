"""The console on nodes that answer, fall silent and come back, driven by keys."""

import os
import select
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from textual.pilot import Pilot

from oncall.bundle.store import AUTOMATIC, Bundle, Manifest
from oncall.console.app import BundleConsole, first_snapshot
from oncall.console.host import Looks
from oncall.console.screens.dialogs import Choose
from oncall.console.snapshot import probe_of
from oncall.console.widgets.listing import Listing
from oncall.playbook.loader import load
from oncall.probes.catalogue import PROBES
from oncall.readings.registry import READINGS

from ..console.tmux import Tmux
from ..console.waiting import press, until
from .cluster import Cluster, start_cluster
from .driving import ONCALL, replay_offline, write_run_file
from .job import Job

pytestmark = pytest.mark.lab

CULPRIT = 5
XID = "NVRM: Xid (PCI:0000:4e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.fixture(scope="module")
def hung(lab: None) -> Iterator[tuple[Cluster, Job]]:
    """One job that hangs on two nodes, for all tests here."""
    with start_cluster(2) as cluster:
        job = cluster.train("sleep", rank=CULPRIT)
        job.wait_hung()
        yield cluster, job


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def bundle(hung: tuple[Cluster, Job], tmp_path: Path) -> Bundle:
    """A new incident of the job; nothing was asked yet."""
    run_text = write_run_file(*hung, tmp_path).read_text()
    manifest = Manifest(run="run42", started=datetime.now(UTC), playbook=AUTOMATIC)
    return Bundle.create(manifest, run_text, tmp_path / "run42" / "first")


@asynccontextmanager
async def opened(
    bundle: Bundle, *, live: bool = True, deadline_s: float | None = None
) -> AsyncIterator[tuple[BundleConsole, "Pilot[int]"]]:
    first = first_snapshot(bundle, live=live, read_only=False)
    console = BundleConsole(bundle, first, Looks(theme="dark"), deadline_s=deadline_s)
    async with console.run_test(size=(120, 34)) as pilot:
        yield console, pilot


def shown(console: BundleConsole, listing: str) -> str:
    return console.screen.query_one(f"#{listing}", Listing).text


async def test_a_node_that_was_cut_off_is_named_and_brought_in_by_retry(
    hung: tuple[Cluster, Job], bundle: Bundle
) -> None:
    node = hung[0].node("node002")
    node.refuse_ssh()
    async with opened(bundle) as (console, pilot):
        await until(pilot, lambda: console.snapshot.report)
        report = console.snapshot.report
        assert report is not None
        assert report.verdict.ranks == ()
        assert "4-7" in shown(console, "suspects")
        await press(pilot, "6")
        table = console.screen.query_one("#table", Listing)
        await until(pilot, lambda: table.row is not None and "node002" in table.row.text)
        assert "refused" in table.row.text
        node.start_ssh()
        await press(pilot, "R")
        await until(pilot, lambda: console.snapshot.report and console.snapshot.report.verdict.ranks == (CULPRIT,))
        await until(pilot, lambda: "refused" not in shown(console, "table"))
        await until(pilot, lambda: "node002 was asked again and has answered all" in shown(console, "message"))
        await press(pilot, "c")
        await until(pilot, lambda: f"rank {CULPRIT}" in shown(console, "table"))
        assert "ranks not seen" in shown(console, "table")


def finished(console: BundleConsole, name: str) -> bool:
    probe = probe_of(console.snapshot, name)
    return probe is not None and probe.finished


def missing(console: BundleConsole, probe: str) -> str:
    """Why node001 did not answer a probe, as the report says; "" where it says nothing."""
    known = console.snapshot.report
    return known.coverage[probe].missing.get("node001", "") if known and probe in known.coverage else ""


def turns(bundle: Bundle, probe: str) -> int:
    """How often a probe was put."""
    return len(list((bundle.path / "evidence" / probe).iterdir()))


async def choose(console: BundleConsole, pilot: "Pilot[int]", wanted: str) -> None:
    """Take the row of a list that is being shown."""
    await until(pilot, lambda: isinstance(console.screen, Choose))
    listing = console.screen.query_one(Listing)
    listing.put_cursor(wanted)
    await press(pilot, "enter")


async def test_one_probe_again_then_all_as_a_new_triage_beside_the_old(
    hung: tuple[Cluster, Job], bundle: Bundle
) -> None:
    node = hung[0].node("node002")
    async with opened(bundle) as (console, pilot):
        await until(pilot, lambda: console.snapshot.report)
        first = console.snapshot.report
        assert first is not None
        assert (first.verdict.ranks, first.seen.kernel) == ((CULPRIT,), ())
        before = {probe: turns(bundle, probe) for probe in ("kernel", "logs")}
        node.append_kernel_log(XID)
        await press(pilot, "r")
        await choose(console, pilot, "kernel")
        await until(pilot, lambda: console.snapshot.report and console.snapshot.report.seen.kernel)
        assert {probe: turns(bundle, probe) for probe in before} == {**before, "kernel": before["kernel"] + 1}
        await press(pilot, "5")
        assert "Xid 79" in shown(console, "table")
        second = console.snapshot.report
        assert second is not None
        node.append_kernel_log(XID.replace("79", "48").replace("GPU has fallen off the bus", "DBE"))
        await press(pilot, "r")
        await choose(console, pilot, "*")
        await until(pilot, lambda: console.bundle.path != bundle.path and console.snapshot.report)
        third = console.snapshot.report
        assert third is not None
        assert third.bundle != second.bundle
        assert len(third.seen.kernel) == len(second.seen.kernel) + 1
        assert "Xid 79" in third.suspects[0].says["kernel"], "no GPU of these nodes is known: none is cleared"
        await press(pilot, "c")
        told = shown(console, "table")
        assert f"{second.started:%H:%M:%S}" in told
        await pilot.press("q")
    assert Bundle.open(bundle.path).manifest.run == Bundle.open(Path(third.bundle)).manifest.run


async def test_in_guided_mode_the_step_at_hand_is_asked_again_alone(hung: tuple[Cluster, Job], bundle: Bundle) -> None:
    async with opened(bundle) as (console, pilot):
        await until(pilot, lambda: console.snapshot.report)
        await press(pilot, "g")
        await until(pilot, lambda: console.snapshot.proposal)
        here = console.snapshot.here
        needed = READINGS[load("hang").steps[str(here)].reading].needs
        before = {probe.name: turns(bundle, probe.name) for probe in console.snapshot.probes}
        await press(pilot, "r")
        await choose(console, pilot, ".")
        await until(pilot, lambda: all(turns(bundle, probe) > before[probe] for probe in needed if probe in PROBES))
        await until(pilot, lambda: console.snapshot.proposal)
        assert console.snapshot.here == here
        assert all(turns(bundle, probe) == before[probe] for probe in before if probe not in needed)


async def test_nodes_that_fall_silent_leave_what_they_said(hung: tuple[Cluster, Job], bundle: Bundle) -> None:
    """The network goes once the processes are known. The answer stands in its time; what ends later still counts."""
    cluster, _ = hung
    text = (bundle.read_text("run.toml") or "").replace("command_timeout_s = 10", "command_timeout_s = 7")
    bundle.write("run.toml", text.encode())
    # The probe of the logs lets two seconds pass: here many, so that the silence comes before its answer in any case.
    sleep = cluster.nodes[0].own.parent / "bin/sleep"
    sleep.write_text('#!/bin/sh\n[ "$1" = 2 ] && exec /bin/sleep 60\nexec /bin/sleep "$@"\n')
    sleep.chmod(0o755)
    try:
        async with opened(bundle, deadline_s=5.0) as (console, pilot):
            await until(pilot, lambda: finished(console, "processes"))
            for node in cluster.nodes:
                node.go_silent()
            await until(pilot, lambda: console.snapshot.report)
            assert missing(console, "logs") == "no answer yet"
            await until(pilot, lambda: "no end within 7 s" in missing(console, "logs"))
            left = console.snapshot.report
            assert left is not None
            answer = shown(console, "answer")
            await press(pilot, "7")
            timeline = shown(console, "table")
    finally:
        sleep.unlink()
        for node in cluster.nodes:
            node.speak_again()
    _, told = replay_offline(bundle.path)
    assert told["headline"] == left.headline
    async with opened(bundle, live=False) as (again, pilot):
        await until(pilot, lambda: again.snapshot.report)
        assert shown(again, "answer") == answer
        await press(pilot, "7")
        ended = shown(again, "table").removeprefix(timeline)
        assert all(line.endswith("the triage ended first") for line in ended.splitlines() if line), ended


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_it_starts_by_itself_and_a_killed_terminal_leaves_the_answer(
    hung: tuple[Cluster, Job], bundle: Bundle, tmp_path: Path
) -> None:
    tmux = Tmux(tmp_path)
    try:
        tmux.start(ONCALL, str(tmp_path / "run42.toml"), "--bundle", tmp_path / "bundle")
        tmux.until(f"rank {CULPRIT} ")
        tmux.until(" DO        1 ")
        program = os.pidfd_open(tmux.child())
    finally:
        tmux.close()
    try:
        assert select.select([program], [], [], 10)[0], "the program outlived its terminal"
    finally:
        os.close(program)
    _, told = replay_offline(tmp_path / "bundle")
    assert told["verdict"]["ranks"] == [CULPRIT]
