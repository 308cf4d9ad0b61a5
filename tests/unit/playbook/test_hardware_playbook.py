"""The hardware playbook comes to each of its conclusions from what nodes say, and to none where they do not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oncall.playbook.loader import load

from ..readings.evidence import Part, Scene, process, processes
from .walking import concludes, kernel, rank_log, step_line, xid

LOST = "GPU has fallen off the bus."
GPU = """<gpu id="00000000:4F:00.0"><uuid>GPU-aa</uuid>
<clocks_event_reasons>{reasons}</clocks_event_reasons>
<clocks><sm_clock>1980 MHz</sm_clock></clocks><max_clocks><sm_clock>1980 MHz</sm_clock></max_clocks>
<temperature><gpu_temp>61 C</gpu_temp></temperature>
<ecc_errors><volatile><sram_correctable>0</sram_correctable><sram_uncorrectable_parity>0</sram_uncorrectable_parity>
<dram_uncorrectable>{ecc}</dram_uncorrectable></volatile></ecc_errors>
<remapped_rows><remapped_row_pending>{pending}</remapped_row_pending>
<remapped_row_failure>No</remapped_row_failure></remapped_rows></gpu>"""
THERMAL = "<clocks_event_reason_hw_thermal_slowdown>{}</clocks_event_reason_hw_thermal_slowdown>"
NVLINK = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aa)\n\t Link 0: Replay Errors: {}\n\t Link 0: CRC Errors: 0\n"


def query(sample: int, *, hot: bool = False, ecc: int = 0, pending: str = "No", replays: int = 0) -> list[Part]:
    gpu = GPU.format(reasons=THERMAL.format("Active" if hot else "Not Active"), ecc=ecc, pending=pending)
    document = f'<?xml version="1.0" ?>\n<nvidia_smi_log>{gpu}</nvidia_smi_log>\n'
    look = {"sample": str(sample)}
    return [
        ("query", look, document),
        ("exit", {**look, "code": "0"}, ""),
        ("nvlink", look, NVLINK.format(replays)),
    ]


SOUND: list[Part] = [*query(1), *query(2)]
OOM = (
    "[{uptime:12.6f}] Out of memory: Killed process 1005 (python3) total-vm:120000000kB, anon-rss:98000000kB,"
    " file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n"
)


def nodes(
    scene: Scene,
    text: str = "",
    *,
    moving: bool = False,
    gpus: list[Part] | str = SOUND,
    refused: bool = False,
    spare: bool = False,
) -> Scene:
    """node002 logs `text`; node001 is sound. Steps end now where `moving`, else ten minutes ago.

    All eight ranks run, but for a `spare` node002, where node001's four are the whole job.
    """
    whole = {"node001": processes(range(4)), "node002": processes(range(4, 8))}
    small = [part for rank in range(4) for part in process(rank, world=4)]
    scene.say("processes", {"node001": small, "node002": []} if spare else whole)
    odd: list[Part] = [("refused", {}, "dmesg: read kernel buffer failed: Operation not permitted\n")]
    scene.say("kernel", {"node001": kernel(), "node002": odd if refused else kernel(text)})
    at = "2026-03-03 02:59:55" if moving else "2026-03-03 02:50:00"
    scene.say("logs", {"node001": [rank_log(step_line(1370, at))], "node002": []})
    return scene.say("gpu_health", {"node001": SOUND, "node002": gpus})


Build = Callable[[Scene], Scene]

CASES: dict[str, Build] = {
    "act-at-checkpoint": lambda scene: nodes(scene, xid(79, text=LOST), moving=True),
    "act-now": lambda scene: nodes(scene, xid(79, text=LOST)),
    "contained": lambda scene: nodes(scene, xid(94, text="Contained: SM (0x1). RST: No, D-RST: No")),
    "idle-node": lambda scene: nodes(scene, xid(79, text=LOST), spare=True),
    "watch-unknown-code": lambda scene: nodes(scene, xid(991), moving=True),
    "unknown-code": lambda scene: nodes(scene, xid(991)),
    "program-error": lambda scene: nodes(scene, xid(31, text="Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS")),
    "out-of-memory": lambda scene: nodes(scene, OOM.format(uptime=99_700.0)),
    "driver-hangs": lambda scene: nodes(scene, gpus=[("query", {"sample": "1"}, ""), ("exit", {"code": "124"}, "")]),
    "gpu-memory": lambda scene: nodes(scene, gpus=[*query(1, ecc=2), *query(2, ecc=2)]),
    "reset-pending": lambda scene: nodes(scene, gpus=[*query(1, pending="Yes"), *query(2, pending="Yes")]),
    "held-down": lambda scene: nodes(scene, gpus=[*query(1, hot=True), *query(2, hot=True)]),
    "gpu-links": lambda scene: nodes(scene, gpus=[*query(1, replays=10), *query(2, replays=12)]),
    "kernel-trouble": lambda scene: nodes(scene, f"[{99_700.0:12.6f}] mlx5_core 0000:c1:00.0 ib0: Link down\n"),
    "watch": lambda scene: nodes(scene, xid(92, text="High single-bit ECC error rate")),
    "no-fault": nodes,
    "not-enough": lambda scene: nodes(scene, refused=True),
}


@pytest.mark.parametrize("conclusion", CASES)
def test_each_conclusion_is_reached_from_its_state(conclusion: str, tmp_path: Path) -> None:
    assert concludes(CASES[conclusion](Scene(tmp_path)), "hardware").conclusion_id == conclusion


def test_none_is_left_out() -> None:
    assert CASES.keys() == load("hardware").conclusions.keys()


WITHHELD: dict[str, Build] = {
    "no kernel log": lambda scene: nodes(scene, refused=True),
    "no driver": lambda scene: nodes(scene, gpus=[("no-driver", {}, "")]),
    "no answer of a node": lambda scene: nodes(scene, gpus="no SSH greeting within 6 s"),
    "nothing at all": lambda scene: scene,
}


@pytest.mark.parametrize("what", WITHHELD)
def test_what_was_not_seen_is_not_sound(what: str, tmp_path: Path) -> None:
    walked = concludes(WITHHELD[what](Scene(tmp_path)), "hardware")
    assert walked.conclusion_id == "not-enough"
    assert walked.steps[-1].verdict in {"unknown", "none"}


def test_a_slowdown_at_one_look_alone_is_none(tmp_path: Path) -> None:
    scene = nodes(Scene(tmp_path), gpus=[*query(1, hot=True), *query(2)])
    assert concludes(scene, "hardware").conclusion_id == "no-fault"


def test_a_killed_exporter_is_not_the_program(tmp_path: Path) -> None:
    text = OOM.format(uptime=99_700.0).replace("1005 (python3)", "77 (dcgm-exporter)")
    assert concludes(nodes(Scene(tmp_path), text), "hardware").conclusion_id == "no-fault"


def test_a_killed_exporter_with_the_pid_of_another_hosts_rank_is_not_the_program(tmp_path: Path) -> None:
    text = OOM.format(uptime=99_700.0).replace("1005 (python3)", "1001 (dcgm-exporter)")
    assert concludes(nodes(Scene(tmp_path), text), "hardware").conclusion_id == "no-fault"


def test_a_fault_of_the_program_after_a_lost_gpu_is_its_consequence(tmp_path: Path) -> None:
    text = xid(79, 300.0, text=LOST) + xid(31, 299.0)
    walked = concludes(nodes(Scene(tmp_path), text), "hardware")
    assert walked.conclusion_id == "act-now"
    assert "Xid 31" in " ".join(walked.findings[0].chain)


def test_the_killed_process_is_named_by_rank(tmp_path: Path) -> None:
    walked = concludes(CASES["out-of-memory"](Scene(tmp_path)), "hardware")
    assert walked.findings[-1].ranks == (5,), "process 1005 is rank 5"
    assert "93 GiB" in walked.findings[-1].text
