"""What a kernel or a driver reports outright is a cause, or is told: never `no fault`. A benign event is no cause."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oncall.flight_recorder.model import Grade
from oncall.playbook.engine import Walk
from oncall.playbook.model import Ending
from oncall.readings.finding import Finding, Role
from oncall.report.build import build_report
from oncall.report.model import Report

from ..readings.evidence import UPTIME_S, Part, Scene, processes
from .test_hang_branches import driver, stopped
from .test_hardware_playbook import SOUND, nodes
from .walking import concludes, kernel, rank_log, step_line, xid

GAVE_UP = (
    "[rank{rank}]:[E303 02:58:00.123456789 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation"
    " timeout: WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=100000) ran for 100050"
    " milliseconds before timing out.\n"
)
NIC_DOWN = "mlx5_core 0000:c1:00.0 ib0: Link down"
HEALTH = "mlx5_core 0000:c1:00.0: poll_health:840:(pid 0): device's health compromised - reached miss count"
LOCKUP = "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:1004]"
NFS = "nfs: server filer1 not responding, still trying"
LUSTRE = "Lustre: scratch-OST0002-osc-ff11: Connection to scratch-OST0002 (at 10.0.1.5@tcp) was lost; in progress"
HUNG = "INFO: task kworker:1104 blocked for more than 120 seconds."
PLUGGED = "mlx5_core 0000:c1:00.0: Port module event: module 0, Cable plugged"
UNPLUGGED = "mlx5_core 0000:c1:00.0: Port module event: module 0, Cable unplugged"
NONFATAL = "RLW_RXPIPE Nonfatal XC0 i0 Link 11 (0x040960c2 0x00000008 0x00000002)"
SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error"
RECOVERY = "GPU recovery action changed from 0x{0} ({1}) to 0x{2} ({3})"
RESET, REBOOT = "GPU Reset Required", "Node Reboot Required"


def line(text: str, ago_s: float = 300.0) -> str:
    return f"[{UPTIME_S - ago_s:12.6f}] {text}\n"


def wants(action: int, name: str, ago_s: float = 299.0) -> str:
    return xid(154, ago_s, text=RECOVERY.format(0, "None", action, name))


def origins(walked: Walk) -> list[Finding]:
    return [finding for finding in walked.findings if finding.role is Role.ORIGIN]


def with_time_outs(scene: Scene, text: str) -> Scene:
    """node002 logs `text` 10 s before every rank began to wait; all gave up at 02:58:00, having waited for 100 s."""
    nodes(scene, text)
    told = {
        n: [rank_log(GAVE_UP.format(rank=r), local=r % 4, stream="stderr") for r in own] for n, own in RANKS.items()
    }
    step: list[Part] = [rank_log(step_line(1370, "2026-03-03 02:50:00"))]
    return scene.say("logs", {"node001": [*step, *told["node001"]], "node002": told["node002"]})


RANKS = {"node001": range(4), "node002": range(4, 8)}
BEFORE_WAITING_S = 230.0


class TestWhatTheDriverAsksFor:
    """Its own word on a GPU goes before what a table says of the code (shared grammar: 94/95 `RST:`, 45 cause, 154)."""

    @pytest.mark.parametrize(
        "text",
        [
            wants(1, RESET),
            wants(2, REBOOT),
            wants(4, "Drain and Reset"),
            wants(5, "Recover IMEX Domain"),
            xid(45, text="Ch 00000011 caused by previous Xid 79"),
            xid(45, text="Ch 00000011 caused by previous Xid 149"),
            xid(94, text="Contained: SM (0x1). RST: No, D-RST: No") + wants(2, REBOOT),
            xid(94, text="Contained: SM (0x1). RST: Yes, D-RST: No"),
            xid(94, text="Contained: SM (0x1). RST: No, D-RST: Yes"),
            xid(13, text="Graphics SM Warp Exception on (GPC 3, TPC 1, SM 0): Out Of Range Address") + wants(1, RESET),
        ],
    )
    def test_a_gpu_that_needs_a_reset_cannot_go_on(self, text: str, tmp_path: Path) -> None:
        assert concludes(nodes(Scene(tmp_path), text), "hardware").conclusion_id == "act-now"

    def test_a_contained_error_alone_lets_the_gpu_go_on(self, tmp_path: Path) -> None:
        text = xid(94, text="Contained: SM (0x1). RST: No, D-RST: No")
        assert concludes(nodes(Scene(tmp_path), text), "hardware").conclusion_id == "contained"

    def test_a_cause_that_is_the_programs_own_is_no_fault_of_the_gpu(self, tmp_path: Path) -> None:
        text = xid(45, text="Ch 00000011 caused by previous Xid 31")
        assert concludes(nodes(Scene(tmp_path), text), "hardware").conclusion_id == "watch"

    def test_a_reset_that_has_been_done_is_no_longer_wanted(self, tmp_path: Path) -> None:
        done = xid(154, 200.0, text=RECOVERY.format(1, RESET, 0, "None"))
        walked = concludes(nodes(Scene(tmp_path), wants(1, RESET) + done), "hardware")
        assert walked.conclusion_id == "watch"
        (told,) = origins(walked)
        assert told.text.endswith("over by now")

    def test_the_text_tells_the_new_value_and_the_named_cause(self, tmp_path: Path) -> None:
        text = wants(2, REBOOT) + xid(45, 200.0, text="Ch 00000011 caused by previous Xid 79")
        told = " ".join(finding.text for finding in concludes(nodes(Scene(tmp_path), text), "hardware").findings)
        assert REBOOT in told
        assert "caused by Xid 79" in told


class TestNeverNoFault:
    """The hardware playbook tells what a kernel reports, whatever it makes of it."""

    @pytest.mark.parametrize("text", [NIC_DOWN, HEALTH, LOCKUP, NFS, LUSTRE, HUNG, UNPLUGGED])
    def test_trouble_that_may_stop_a_job(self, text: str, tmp_path: Path) -> None:
        walked = concludes(nodes(Scene(tmp_path), line(text)), "hardware")
        assert walked.conclusion_id == "kernel-trouble"
        assert [(finding.hosts, finding.grade) for finding in origins(walked)] == [(("node002",), Grade.LIKELY)]

    @pytest.mark.parametrize(
        "text",
        [
            xid(63, text="Row Remapper: New row (0x0000000b1c2d3e40) marked for remapping, reset gpu to activate."),
            xid(92, text="High single-bit ECC error rate"),
            xid(121, text="C2C corrected"),
            xid(145, text=NONFATAL),
            line(SWITCH),
            line("mlx5_core 0000:c1:00.0: temp_warn:197:(pid 0): High temperature on sensors with bit set 0x0 0x1"),
            line("mce: CPU12: Package temperature above threshold, cpu clock throttled (total events = 5)"),
            line("pcieport 0000:15:01.0: AER: Corrected error received: 0000:17:00.0"),
        ],
    )
    def test_what_leaves_a_job_alone(self, text: str, tmp_path: Path) -> None:
        walked = concludes(nodes(Scene(tmp_path), text), "hardware")
        assert (walked.conclusion_id, walked.conclusion.ending) == ("watch", Ending.CAUSE_FOUND)
        assert [finding.hosts for finding in origins(walked)] == [("node002",)]

    @pytest.mark.parametrize(
        ("text", "over"),
        [
            (NIC_DOWN, "mlx5_core 0000:c1:00.0 ib0: Link up"),
            (NFS, "nfs: server filer1 OK"),
            (UNPLUGGED, PLUGGED),
            (
                LUSTRE,
                "Lustre: scratch-OST0002-osc-ff11: Connection restored to 10.0.1.5@tcp (at 10.0.1.5@tcp)",
            ),
        ],
    )
    def test_what_is_over_is_told_as_such(self, text: str, over: str, tmp_path: Path) -> None:
        walked = concludes(nodes(Scene(tmp_path), line(text) + line(over, 290.0)), "hardware")
        assert walked.conclusion_id == "watch"
        assert origins(walked)[0].text.endswith("over by now")

    def test_another_link_that_came_up_ends_nothing(self, tmp_path: Path) -> None:
        text = line(NIC_DOWN) + line("mlx5_core 0000:c1:00.1 ib1: Link up", 290.0)
        assert concludes(nodes(Scene(tmp_path), text), "hardware").conclusion_id == "kernel-trouble"

    def test_lines_that_say_the_same_are_one_finding(self, tmp_path: Path) -> None:
        text = "".join(line(NFS, 600.0 - n) for n in range(40))
        (told,) = origins(concludes(nodes(Scene(tmp_path), text), "hardware"))
        assert told.text.endswith("40 times")

    @pytest.mark.parametrize(
        "text", ["NVRM: GPU at PCI:0000:4f:00: GPU-1f0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", PLUGGED, "nfs: server a OK"]
    )
    def test_what_tells_of_nothing_amiss_is_none(self, text: str, tmp_path: Path) -> None:
        assert concludes(nodes(Scene(tmp_path), line(text)), "hardware").conclusion_id == "no-fault"

    def test_where_half_was_not_read_what_is_mild_ends_no_search(self, tmp_path: Path) -> None:
        scene = nodes(Scene(tmp_path))
        mild = kernel(xid(92, text="High single-bit ECC error rate"))
        scene.say("kernel", {"node001": mild, "node002": "timed out"})
        assert concludes(scene, "hardware").conclusion_id == "not-enough"


class TestTexts:
    """A finding names the interface, port, server or task, and the state that the line tells."""

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (NIC_DOWN, ("ib0", "0000:c1:00.0", "down")),
            (UNPLUGGED, ("0000:c1:00.0", "module 0", "Cable unplugged")),
            (HEALTH, ("0000:c1:00.0", "device's health compromised")),
            (LOCKUP, ("CPU 3", "22 s", "python3")),
            (NFS, ("filer1", "does not answer")),
            (LUSTRE, ("scratch-OST0002",)),
            ("EDAC MC0: 1 UE memory read error on CPU_SrcID#0_DIMM#0 (channel:0)", ("UE", "CPU_SrcID#0_DIMM#0")),
            (SWITCH.replace("Non-fatal", "Fatal"), ("SXid 12028", "Fatal", "link 32", "egress non-posted PRIV")),
            ("NVRM: Xid (PCI:0000:4f:00): 145, " + NONFATAL, ("RLW_RXPIPE", "nonfatal", "link 11")),
        ],
    )
    def test_what_where_and_in_which_state(self, text: str, words: tuple[str, ...], tmp_path: Path) -> None:
        told = origins(concludes(nodes(Scene(tmp_path), line(text)), "hardware"))[0].text
        assert [word for word in words if word not in told] == [], told


class TestReport:
    """The verdict that an operator reads names what, where and whom."""

    @pytest.mark.parametrize(
        ("text", "words"), [(line(NIC_DOWN), "ib0"), (line(NFS), "filer1"), (xid(92, text="High SBE rate"), "Xid 92")]
    )
    def test_the_verdict_says_what_was_reported(self, text: str, words: str, tmp_path: Path) -> None:
        verdict = report_of(nodes(Scene(tmp_path), text), "hardware").verdict
        assert words in verdict.cause
        assert verdict.hosts == ("node002",)

    def test_a_file_system_that_all_miss_is_told_of_all(self, tmp_path: Path) -> None:
        scene = nodes(Scene(tmp_path))
        scene.say("kernel", {host: kernel(line(NFS)) for host in RANKS})
        verdict = report_of(scene, "hardware").verdict
        assert (verdict.hosts, verdict.ranks) == (("node001", "node002"), tuple(range(8)))
        assert "node[001-002]: NFS server filer1" in verdict.cause

    def test_no_host_is_left_out_of_many(self, tmp_path: Path) -> None:
        hosts = [f"node{n:03}" for n in range(1, 31)]
        scene = Scene(tmp_path, nodes="node[001-030]")
        answers = {host: kernel(xid(92, pci=f"0000:{n:02x}:00")) for n, host in enumerate(hosts, 1)}
        scene.say("kernel", answers).say("gpu_health", dict.fromkeys(hosts, SOUND))
        assert set(report_of(scene, "hardware").verdict.hosts) == set(hosts)

    def test_the_suspects_row_and_the_timeline_tell_it_too(self, tmp_path: Path) -> None:
        report = report_of(stopped(Scene(tmp_path), line(NIC_DOWN, LAST_STEP_AGO_S - 10)), "hang")
        assert all("ib0" in each.says["kernel"] for each in report.suspects)
        assert any("ib0" in moment.text for moment in report.seen.timeline)


def report_of(scene: Scene, playbook: str) -> Report:
    return build_report(concludes(scene, playbook), bundle="bundle", took_s=1.0)


class TestTimeOutsAfterIt:
    """Ranks gave up soon after: what can stop a job may have, what cannot has not."""

    @pytest.mark.parametrize("text", [NIC_DOWN, HEALTH, LOCKUP, UNPLUGGED])
    def test_trouble_is_the_likely_cause(self, text: str, tmp_path: Path) -> None:
        walked = concludes(with_time_outs(Scene(tmp_path), line(text, BEFORE_WAITING_S)), "hardware")
        assert walked.conclusion_id == "act-now"
        assert [finding.grade for finding in origins(walked)] == [Grade.LIKELY]

    @pytest.mark.parametrize(
        "text",
        [
            line(PLUGGED, BEFORE_WAITING_S),
            line(SWITCH, BEFORE_WAITING_S),
            xid(121, BEFORE_WAITING_S, text="C2C corrected"),
            xid(92, BEFORE_WAITING_S, text="High single-bit ECC error rate"),
            xid(63, BEFORE_WAITING_S, text="Row Remapper: New row marked for remapping"),
            xid(145, BEFORE_WAITING_S, text=NONFATAL),
        ],
    )
    def test_what_is_mild_is_not_excluded_for_it(self, text: str, tmp_path: Path) -> None:
        scene = with_time_outs(Scene(tmp_path), text)
        assert concludes(scene, "hardware").conclusion_id in {"watch", "no-fault"}
        assert concludes(scene, "hang", collective="no-fault").conclusion_id != "hardware-fault"

    def test_the_fault_behind_a_mild_one_is_found(self, tmp_path: Path) -> None:
        text = xid(79, BEFORE_WAITING_S + 5, text="GPU has fallen off the bus.") + xid(92, BEFORE_WAITING_S)
        walked = concludes(with_time_outs(Scene(tmp_path), text), "hardware")
        assert (walked.conclusion_id, len(origins(walked))) == ("act-now", 1)
        assert "8 times nccl timeout on node[001-002]" in origins(walked)[0].text


LAST_STEP_AGO_S = 600.0


class TestAtTheMomentOfTheStop:
    """All ranks wait, the watchdog has not fired, and a kernel tells what happened 10 s after the last step."""

    @pytest.mark.parametrize("text", [NIC_DOWN, HEALTH, LOCKUP, UNPLUGGED])
    def test_trouble_of_that_moment_is_the_likely_cause(self, text: str, tmp_path: Path) -> None:
        walked = concludes(stopped(Scene(tmp_path), line(text, LAST_STEP_AGO_S - 10)), "hang")
        assert walked.conclusion_id == "hardware-fault"
        assert [(f.hosts, f.grade) for f in origins(walked)] == [(("node002",), Grade.LIKELY)]

    @pytest.mark.parametrize("text", [NFS, LUSTRE])
    def test_a_file_system_that_fell_silent_then(self, text: str, tmp_path: Path) -> None:
        walked = concludes(stopped(Scene(tmp_path), line(text, LAST_STEP_AGO_S - 10)), "hang")
        assert walked.conclusion_id == "host-blocked"

    @pytest.mark.parametrize("text", [NIC_DOWN, HEALTH, LOCKUP, NFS])
    @pytest.mark.parametrize("ago_s", [LAST_STEP_AGO_S + 900, 100.0], ids=["steps went on after it", "minutes later"])
    def test_trouble_of_another_moment_is_none(self, text: str, ago_s: float, tmp_path: Path) -> None:
        assert concludes(stopped(Scene(tmp_path), line(text, ago_s)), "hang").conclusion_id == "all-wait"

    def test_a_server_that_answers_again_holds_nobody_up(self, tmp_path: Path) -> None:
        text = line(NFS, LAST_STEP_AGO_S - 10) + line("nfs: server filer1 OK", LAST_STEP_AGO_S - 40)
        assert concludes(stopped(Scene(tmp_path), text), "hang").conclusion_id == "all-wait"

    @pytest.mark.parametrize("text", [xid(92, 590.0), xid(145, 590.0, text=NONFATAL), line(PLUGGED, 590.0)])
    def test_what_is_mild_is_no_cause_then_either(self, text: str, tmp_path: Path) -> None:
        assert concludes(stopped(Scene(tmp_path), text), "hang").conclusion_id == "all-wait"

    def test_a_lost_gpu_counts_before_a_link_of_that_moment(self, tmp_path: Path) -> None:
        scene = stopped(Scene(tmp_path), xid(79, 585.0, text="GPU has fallen off the bus."))
        scene.say("kernel", {"node001": kernel(line(NIC_DOWN, 590.0)), "node002": scene_kernel(scene)})
        assert [finding.hosts for finding in origins(concludes(scene, "hang"))] == [("node002",)]


def scene_kernel(scene: Scene) -> list[Part]:
    evidence = scene.case.evidence("kernel")
    assert evidence is not None
    return [(p.name, dict(p.attributes), p.data) for p in evidence.parts("node002") if p.name == "kernel"]


class TestDriversAreAsked:
    """Where everyone joined, or waits, a driver may tell what no kernel does."""

    @pytest.mark.parametrize("own", [{}, {"watchdog": "timed-out", "collective": "all-joined"}])
    @pytest.mark.parametrize(("ecc", "found"), [(3, True), (0, False)])
    def test_lost_memory_is_the_cause(self, own: dict[str, str], ecc: int, found: bool, tmp_path: Path) -> None:
        walked = concludes(driver(stopped(Scene(tmp_path)), ecc=ecc), "hang", **own)
        assert (walked.conclusion_id == "hardware-fault") is found

    LOST = (
        "Unable to determine the device handle for GPU0000:4F:00.0: GPU is lost.  Reboot the system to recover this"
        " GPU\n"
    )
    SAID: tuple[tuple[str, Callable[[str], list[Part]]], ...] = (
        ("on standard output", lambda told: [("query", {"sample": "1"}, told), ("exit", {"code": "15"}, "")]),
        ("on standard error", lambda told: [("query", {"sample": "1"}, ""), ("exit", {"code": "255"}, told)]),
        ("by its exit code", lambda _told: [("query", {"sample": "1"}, ""), ("exit", {"code": "15"}, "")]),
    )

    @pytest.mark.parametrize("refused", [True, False], ids=["no kernel log", "a sound kernel log"])
    @pytest.mark.parametrize(("where", "said"), SAID, ids=[where for where, _ in SAID])
    def test_a_gpu_that_nvidia_smi_calls_lost(
        self, where: str, said: Callable[[str], list[Part]], refused: bool, tmp_path: Path
    ) -> None:
        scene = nodes(Scene(tmp_path), gpus=said(self.LOST), refused=refused)
        walked = concludes(scene, "hardware")
        assert walked.conclusion_id == "driver-hangs"
        assert [finding.hosts for finding in origins(walked)] == [("node002",)]

    def test_the_lost_gpu_is_named_with_its_rank(self, tmp_path: Path) -> None:
        table = "".join(f"{n}, GPU-{n}, 00000000:{n + 3}F:00.0\n" for n in range(4))
        gpus: Part = ("gpus", {"form": "nvidia-smi"}, table)
        scene = nodes(Scene(tmp_path), gpus=[("query", {"sample": "1"}, self.LOST), ("exit", {"code": "15"}, "")])
        scene.say("gpus", {"node001": [gpus], "node002": [gpus]})
        scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4, 8))})
        (told,) = origins(concludes(scene, "hardware"))
        assert told.ranks == (5,)
        assert "0000:4f:00" in told.text

    def test_a_driver_that_tells_nothing_else_is_quoted(self, tmp_path: Path) -> None:
        failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
        scene = nodes(Scene(tmp_path), gpus=[("query", {"sample": "1"}, failed), ("exit", {"code": "9"}, "")])
        walked = concludes(scene, "hardware")
        assert walked.conclusion_id == "not-enough"
        assert "couldn't communicate" in " ".join(step.judgement.reason for step in walked.steps)
