"""What something speaks against, or what was not seen might explain, is not sure."""

import asyncio
import shutil
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle
from oncall.flight_recorder.model import Grade
from oncall.rehearse.incidents import incidents
from oncall.report.model import Report
from oncall.report.triage import replay

LOST = b"[%12.6f] NVRM: Xid (PCI:%s): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


def replay_with_a_lost_gpu(tmp_path: Path, host: str, address: bytes, ago_s: float) -> Report:
    """The hang by a branch that rank 5 took, with a fault besides that its recording had not."""
    copy = tmp_path / "bundle"
    shutil.copytree(incidents()["hang-by-code"].bundle.path, copy)
    (path,) = (copy / "evidence/kernel").rglob(f"{host}.out")
    head, end = path.read_bytes().rsplit(b"\n\n", 1)
    uptime_s = float(head.split(b"\tclock\n")[1].split()[2])
    path.write_bytes(head + b"\n" + LOST % (uptime_s - ago_s, address) + b"\n" + end)
    return asyncio.run(replay(Bundle.open(copy), lambda _: None))


@pytest.mark.parametrize(("host", "address"), [("node001", b"0000:1a:00"), ("node002", b"0000:9b:00")])
def test_a_fault_of_another_rank_contradicts_and_does_not_replace_what_the_dumps_say(
    host: str, address: bytes, tmp_path: Path
) -> None:
    report = replay_with_a_lost_gpu(tmp_path, host, address, 2.0)
    assert (report.verdict.kind, report.verdict.ranks) == ("extra_collective", (5,))
    assert report.verdict.grade is Grade.LIKELY
    against = {each.id: each.finding for each in report.findings}[report.verdict.against[0]]
    assert (against.hosts, "Xid 79" in against.text) == ((host,), True)


@pytest.mark.parametrize(("host", "address"), [("node001", b"0000:1a:00"), ("node002", b"0000:9b:00")])
def test_a_fault_that_the_job_outlived_contradicts_nothing(host: str, address: bytes, tmp_path: Path) -> None:
    report = replay_with_a_lost_gpu(tmp_path, host, address, 3600.0)
    assert (report.verdict.kind, report.verdict.ranks) == ("extra_collective", (5,))
    assert (report.verdict.grade, report.verdict.against) == (Grade.SURE, ())


def test_a_process_that_is_gone_is_sure_only_where_its_kernel_was_read(tmp_path: Path) -> None:
    """The kernel log that is withheld holds the fault of the GPU."""
    copy = tmp_path / "bundle"
    shutil.copytree(incidents()["hang-by-hardware"].bundle.path, copy)
    (path,) = (copy / "evidence/kernel").rglob("node002.out")
    path.write_bytes(path.read_bytes()[:150])
    verdict = asyncio.run(replay(Bundle.open(copy), lambda _: None)).verdict
    assert (verdict.kind, verdict.ranks, verdict.grade) == ("process_lost", (5,), Grade.LIKELY)


def test_a_look_at_stacks_is_not_sure_where_nothing_tells_that_the_job_stands(tmp_path: Path) -> None:
    """A job that runs shows the same: most ranks in a collective, one that comes to it."""
    copy = tmp_path / "bundle"
    shutil.copytree(incidents()["hang-by-data"].bundle.path, copy)
    for probe in ("logs", "dumps", "flight_recorder"):
        shutil.rmtree(copy / "evidence" / probe)
    report = asyncio.run(replay(Bundle.open(copy), lambda _: None))
    assert (report.verdict.ranks, report.verdict.grade, report.state) == ((5,), Grade.LIKELY, "unknown")


def test_a_restart_that_has_made_steps_carries_no_conclusion(tmp_path: Path) -> None:
    """The second attempt hangs in its turn, and there are no dumps: nobody is named, and it does not restart."""
    copy = tmp_path / "bundle"
    shutil.copytree(incidents()["hang-of-the-network"].bundle.path, copy)
    for path in (copy / "evidence/logs").rglob("*.out"):
        path.write_bytes(path.read_bytes().replace(b"/attempt_0", b"/attempt_1"))
    shutil.rmtree(copy / "evidence/flight_recorder")
    report = asyncio.run(replay(Bundle.open(copy), lambda _: None))
    assert any(each.finding.kind == "restarting" for each in report.findings)
    assert (report.verdict.conclusion, report.verdict.kind, report.verdict.grade) == ("all-wait", None, None)


def test_stacks_are_not_sure_where_nothing_tells_how_many_ranks_there_are(tmp_path: Path) -> None:
    """Ranks 4, 6 and 7 were not seen, and neither the run's file nor a process tells that they exist."""
    copy = tmp_path / "bundle"
    shutil.copytree(incidents()["hang-by-data"].bundle.path, copy)
    for probe in ("processes", "dumps", "flight_recorder"):
        shutil.rmtree(copy / "evidence" / probe)
    (copy / "ranks.json").unlink()
    (copy / "run.toml").write_text((copy / "run.toml").read_text().replace('file = "ranks.json"', ""))
    (path,) = (copy / "evidence/stacks").rglob("node002.out")
    head, *parts = path.read_bytes().split(b"\n\noncall-")
    kept = [part for part in parts if b"\tstack\t" not in part or b"rank=5" in part]
    path.write_bytes(b"\n\noncall-".join([head, *kept]))
    report = asyncio.run(replay(Bundle.open(copy), lambda _: None))
    assert (report.verdict.ranks, report.verdict.grade, report.state) == ((5,), Grade.LIKELY, "stopped")
