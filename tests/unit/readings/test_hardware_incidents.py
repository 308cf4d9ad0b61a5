"""Causes before consequences, from the nodes' answers: what began a burst is the fault, the rest is what it led to."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from oncall.flight_recorder.model import Grade
from oncall.readings.finding import Role
from oncall.readings.hardware import hardware

from .evidence import NOW, UPTIME_S, Part, Scene, log, process

XID = "[{uptime:12.6f}] NVRM: Xid (PCI:{pci}): {code}, {text}\n"
LOST = "GPU has fallen off the bus."


def xid(code: int, ago_s: float, *, pci: str = "0000:4f:00", text: str = "some text") -> str:
    return XID.format(uptime=UPTIME_S - ago_s, pci=pci, code=code, text=text)


def kernel(text: str = "") -> list[Part]:
    return [("kernel", {"form": "dmesg"}, text)]


def gave_up(rank: int, ago_s: float, *, waited_s: float = 600.0) -> str:
    """What ProcessGroupNCCL of PyTorch 2.6 prints when a collective ran out of its time."""
    at = NOW - timedelta(seconds=ago_s)
    head = f"[rank{rank}]:[E{at:%m%d %H:%M:%S}.000000000 ProcessGroupNCCL.cpp:"
    work = f"WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)={waited_s * 1000:.0f})"
    speaker = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    return (
        f"{head}632] {speaker} Watchdog caught collective operation timeout: {work} ran for {waited_s * 1000 + 80:.0f}"
        f" milliseconds before timing out.\n"
        f"{head}2268] {speaker} failure detected by watchdog at work sequence id: 26 PG status: last enqueued work: 27,"
        f" last completed work: 25\n"
    )


def stderr(rank: int, width: int, text: str) -> Part:
    return log(f"/l/run42_x/attempt_0/{rank % width}/stderr.log", text, rank=rank, age_s=5)


def burst(ranks: int, width: int, culprit: int) -> Iterator[tuple[str, list[Part], list[Part], list[Part]]]:
    """One GPU is lost 700 s ago; every other rank gives up 600 s later, and its channels are torn down."""
    for number in range(ranks // width):
        own = range(number * width, (number + 1) * width)
        head = xid(79, 700.0, text=LOST) if culprit in own else ""
        torn = "".join(xid(45, 20.0 - r % width, pci=f"0000:{r % width:02x}:00", text="Ch 00000010") for r in own)
        told = [stderr(r, width, gave_up(r, 90.0 - r % 9, waited_s=605.0)) for r in own if r != culprit]
        running = [part for r in own for part in process(r, world=ranks, width=width)]
        yield f"node{number + 1:03}", running, kernel(head + torn), told


def test_one_lost_gpu_and_1023_time_outs_are_one_incident_within_two_seconds(tmp_path: Path) -> None:
    scene = Scene(tmp_path, nodes="node[001-128]")
    answers = list(burst(1024, 8, culprit=293))
    for probe, at in (("processes", 1), ("kernel", 2), ("logs", 3)):
        scene.say(probe, {answer[0]: answer[at] for answer in answers})  # type: ignore[misc]

    start = time.process_time()
    judged = hardware(scene.case)
    took_s = time.process_time() - start

    assert judged.verdict == "fault"
    (origin,) = [finding for finding in judged.findings if finding.role is Role.ORIGIN]
    assert (origin.kind, origin.hosts, origin.grade) == ("gpu_fault", ("node037",), Grade.SURE)
    assert origin.time is not None
    assert f"{origin.time:%H:%M:%S}" == "02:48:20"
    assert len(judged.findings) == 1, "no consequence stands beside the cause"
    assert any(each.startswith("1,023 times nccl timeout on node[001-128]") for each in origin.chain), origin.chain
    assert any(each.startswith("1,024 times Xid 45 on node[001-128]") for each in origin.chain), origin.chain
    assert took_s < 2.0


def test_of_two_faults_the_one_that_ranks_suffered_from_is_the_cause(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.say("kernel", {"node001": kernel(xid(79, 5000.0, text=LOST)), "node002": kernel(xid(79, 700.0, text=LOST))})
    scene.say("logs", {"node001": [stderr(0, 4, gave_up(0, 90.0))], "node002": []})

    judged = hardware(scene.case)

    assert [finding.hosts for finding in judged.findings if finding.role is Role.ORIGIN] == [("node002",)]
    assert [finding.hosts for finding in judged.findings if finding.role is Role.CONTEXT] == [("node001",)]


def test_faults_within_the_clocks_error_are_rivals_and_neither_is_sure(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.say("kernel", {"node001": kernel(xid(79, 703.0, text=LOST)), "node002": kernel(xid(79, 700.0, text=LOST))})
    scene.say("logs", {"node001": [stderr(0, 4, gave_up(0, 90.0))], "node002": []})

    judged = hardware(scene.case)

    origins = [finding for finding in judged.findings if finding.role is Role.ORIGIN]
    assert {finding.hosts for finding in origins} == {("node001",), ("node002",)}
    assert {finding.grade for finding in origins} == {Grade.LIKELY}
    assert "by the clocks node002 may have been first" in origins[0].text


def test_a_gpu_that_breaks_links_elsewhere_is_first_though_the_suspect_has_only_the_link(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.say("kernel", {"node001": kernel(xid(79, 700.0, text=LOST)), "node002": kernel(xid(74, 650.0))})

    judged = hardware(scene.case)

    (origin,) = [finding for finding in judged.findings if finding.role is Role.ORIGIN]
    assert origin.hosts == ("node001",)
    assert origin.chain == ("Xid 74 on node002 from 02:49:10 on",)


def test_a_link_that_went_down_before_ranks_began_to_wait_is_a_likely_fault(tmp_path: Path) -> None:
    down = f"[{UPTIME_S - 700:12.6f}] mlx5_core 0000:18:00.0 ibs1f0: Link down\n"
    scene = Scene(tmp_path)
    scene.say("kernel", {"node001": kernel(), "node002": kernel(down)})
    assert hardware(scene.case).verdict == "clear", "a link may flap; nobody suffered"
    scene.say("logs", {"node001": [stderr(0, 4, gave_up(0, 90.0))], "node002": []})

    judged = hardware(scene.case)

    assert judged.verdict == "fault"
    assert (judged.findings[0].kind, judged.findings[0].grade) == ("host_fault", Grade.LIKELY)


@pytest.mark.parametrize("code", [13, 31])
def test_an_error_of_the_program_is_no_fault_of_the_hardware_whoever_suffers(tmp_path: Path, code: int) -> None:
    scene = Scene(tmp_path)
    scene.say("kernel", {"node001": kernel(), "node002": kernel(xid(code, 700.0))})
    scene.say("logs", {"node001": [stderr(0, 4, gave_up(0, 90.0))], "node002": []})
    assert hardware(scene.case).verdict == "clear"


def test_two_gpus_lost_on_one_host_are_both_named(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    text = xid(79, 700.0, text=LOST) + xid(79, 699.0, pci="0000:9b:00", text=LOST)
    table = "0, GPU-aa, 00000000:4F:00.0\n3, GPU-bb, 00000000:9B:00.0\n"
    own = [part for rank in range(4, 8) for part in process(rank)]
    scene.say("processes", {"node001": [], "node002": own})
    scene.say("gpus", {"node001": [], "node002": [("gpus", {"form": "nvidia-smi"}, table)]})
    scene.say("kernel", {"node001": kernel(), "node002": kernel(text)})

    assert hardware(scene.case).findings[0].ranks == (4, 7)


def test_faults_of_a_whole_row_of_hosts_are_told_by_their_spread(tmp_path: Path) -> None:
    scene = Scene(tmp_path, nodes="node[001-040]")
    scene.say("kernel", {f"node{n:03}": kernel(xid(79, 3000.0 - 60 * n, text=LOST)) for n in range(1, 41)})

    judged = hardware(scene.case)

    origins = [finding for finding in judged.findings if finding.role is Role.ORIGIN]
    assert len(origins) == 9
    assert origins[-1].text.startswith("32 more faults on node[009-040], from Xid 79")
    assert {host for finding in origins for host in finding.hosts} == {f"node{n:03}" for n in range(1, 41)}
