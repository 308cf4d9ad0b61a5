"""Every form of line that kernels and the NVIDIA driver print, one by one: what each says, and what is no event."""

from typing import Any

import pytest

from oncall.formats.event import Event
from oncall.formats.kernel import read_kernel
from oncall.formats.kernel_kinds import KERNEL_KINDS


def events(*lines: str) -> tuple[Event, ...]:
    return read_kernel("\n".join(lines).encode(), "log").events


def only(*lines: str) -> dict[str, Any]:
    (event,) = events(*lines)
    return event.as_json()


def said(fields: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(fields[name] for name in names)


XID = "NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("envelope", "fields"),
    [
        ("", {"ts": None, "uptime_s": None, "host": None}),
        ("[ 8123.450001] ", {"uptime_s": 8123.450001, "ts": None}),
        ("[902117.331062][ T4242] ", {"uptime_s": 902117.331062}),
        ("[ 8123.450001 <    0.000731>] ", {"uptime_s": 8123.450001}),
        ("[  +0.000731] ", {"delta_s": 0.000731, "ts": None, "uptime_s": None}),
        ("[<    0.000731>] ", {"delta_s": 0.000731}),
        ("[Mar 3 04:05] ", {"ts": "03-03T04:05"}),
        ("[Mar13 04:05] ", {"ts": "03-13T04:05"}),
        ("Tue 2026-03-03 04:05:06 UTC node-a07 kernel: ", {"host": "node-a07", "ts": None}),
        ("1767225600.123456 node-a07 kernel: [ 8123.450001] ", {"host": "node-a07", "uptime_s": 8123.450001}),
        ("[Tue Mar  3 04:05:06 2026] ", {"ts": "2026-03-03T04:05:06"}),
        ("[mar. mars  3 04:05:06 2026] ", {"ts": "2026-03-03T04:05:06"}),
        ("Mar  3 04:05:06 node-a07 kernel: ", {"ts": "03-03T04:05:06", "host": "node-a07", "uptime_s": None}),
        ("Mar  3 04:05:06 node-a07 kernel: [ 8123.450001] ", {"ts": "03-03T04:05:06", "uptime_s": 8123.450001}),
        ("jan.  3 04:05:06 node-a07 kernel: ", {"ts": "01-03T04:05:06"}),
        ("août 31 04:05:06 node-a07 kernel: ", {"ts": "08-31T04:05:06"}),
        ("juil.  1 04:05:06 node-a07 kernel: ", {"ts": "07-01T04:05:06"}),
        ("Qux  1 04:05:06 node-a07 kernel: ", {"ts": None, "host": "node-a07"}),
        ("Mar  3 04:05:06.123456 node-a07 kernel: ", {"ts": "03-03T04:05:06.123456"}),
        ("2026-03-03T04:05:06.123456+00:00 node-a07 kernel: ", {"ts": "2026-03-03T04:05:06.123456+00:00"}),
        ("2026-03-03T04:05:06+0200 node-a07 kernel: ", {"ts": "2026-03-03T04:05:06+02:00", "host": "node-a07"}),
        ("2026-03-03T04:05:06Z node-a07 kernel: [  512.100200] ", {"ts": "2026-03-03T04:05:06Z", "uptime_s": 512.1002}),
        ("2026-03-03T04:05:06,123456+01:00 ", {"ts": "2026-03-03T04:05:06.123456+01:00", "host": None}),
        ("<3>[   77.000100] ", {"uptime_s": 77.0001, "kmsg_priority": 3}),
        ("kern  :err   : [   78.000100] ", {"uptime_s": 78.0001}),
        ("kern  :warn  : [Tue Mar  3 04:05:06 2026] ", {"ts": "2026-03-03T04:05:06"}),
        ("3,4711,77012004418,-;", {"kmsg_priority": 3, "kmsg_seq": 4711, "uptime_s": 77012.004418}),
        ("6,339,5140900,-,caller=T1;", {"kmsg_priority": 6, "uptime_s": 5.1409}),
        ("2026-03-03T04:05:06.123456789Z stdout F [ 8123.450001] ", {"uptime_s": 8123.450001, "ts": None}),
        ("2026-03-03T04:05:06.123456789Z ", {"uptime_s": None, "ts": None}),
        ("[pod/kmsg-x/kmsg] <4>[ 8123.450001] ", {"uptime_s": 8123.450001, "kmsg_priority": 4}),
        ("kmsg-1  | Mar  3 04:05:06 node-a07 kernel: ", {"ts": "03-03T04:05:06", "host": "node-a07"}),
        ("node-agent: ", {"ts": None}),
    ],
)
def test_envelopes(envelope: str, fields: dict[str, Any]) -> None:
    read = only(envelope + XID)

    assert said(read, "kind", "xid", "pci") == ("xid", 79, "0000:4f:00")
    assert {name: read.get(name) for name in fields} == fields


def test_docker_json_file() -> None:
    line = '{"log":"<3>[ 8123.450001] ' + XID + '\\n","stream":"stdout","time":"2026-03-03T04:05:06.1Z"}'

    assert said(only(line), "xid", "uptime_s", "text") == (79, 8123.450001, "GPU has fallen off the bus.")


@pytest.mark.parametrize(
    "line",
    [
        "Aug  1 00:00:02 node-k01 gpu-agent[991]: saw " + XID,
        "Aug  1 00:00:02 node-k01 gpu-agent: " + XID,
        "2026-03-03T04:05:06Z node-a07 dcgm-exporter[77]: [ 8123.450001] " + XID,
        '[ 8123.450001] audit: type=1400 comm="grep" args="' + XID + '"',
        'level=error msg="' + XID + '"',
        "[ 8123.450001] NVRM: Xid error: xyz, invalid data",
        "root 4242 grep Xid 79",
    ],
)
def test_text_that_mentions_an_xid_is_none(line: str) -> None:
    parsed = read_kernel(line.encode(), "log")

    assert parsed.events == ()
    assert parsed.unrecognised == ()


@pytest.mark.parametrize(
    "claim",
    [b"NVRM: Xid (PCI:0000:4f:00", b"NVRM: Xid (PCI:zz): 79, x", b"nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 2"],
)
def test_a_line_that_claims_an_error_but_cannot_be_read_is_reported(claim: bytes) -> None:
    assert read_kernel(b"\n[    1.000000] " + claim, "log").unrecognised == (2,)


@pytest.mark.parametrize(
    ("device", "pci"),
    [
        ("PCI:0000:4f:00", "0000:4f:00"),
        ("PCI:0000:4F:00", "0000:4f:00"),
        ("0000:4f:00", "0000:4f:00"),
        ("PCI:0000:10:1c", "0000:10:1c"),
        ("PCI:0018:01:00", "0018:01:00"),
        ("PCI:00000000:4F:00.0", "0000:4f:00"),
    ],
)
def test_notations_of_one_gpu(device: str, pci: str) -> None:
    assert only(f"NVRM: Xid ({device}): 62, 2027a 4e8c1d00 00000000")["pci"] == pci


@pytest.mark.parametrize(
    ("rest", "pid", "process"),
    [
        ("43, Ch 00000010", None, None),
        ("43, pid=4242, name=python3, Ch 00000010", 4242, "python3"),
        ("43, pid=4242, Ch 00000010", 4242, None),
        ("43, pid='<unknown>', name=<unknown>, Ch 00000010", None, None),
        ("43, pid=0, name=<unknown>, Ch 00000010", None, None),
        ("43, pid=9, name=nvc:[driver], Ch 00000010", 9, "nvc:[driver]"),
        ("43, pid=9, name=data loader w, Ch 00000010", 9, "data loader w"),
        ("43, pid=9, name=kworker/17:1, Ch 00000010", 9, "kworker/17:1"),
        ("43, pid=9, name=a,b, Ch 00000010", 9, "a,b"),
    ],
)
def test_process_of_each_driver_generation(rest: str, pid: int | None, process: str | None) -> None:
    read = only(f"NVRM: Xid (PCI:0000:4f:00): {rest}")

    assert said(read, "pid", "process", "channel") == (pid, process, "00000010")


def test_mig_instances() -> None:
    both = only("NVRM: Xid (PCI:0000:4f:00 GPU-I:03 GPU-CI:00): 43, Ch 00000010")
    one = only("NVRM: Xid (PCI:0000:4f:00 GPU-I:12): 43, Ch 00000010")

    assert said(both, "gpu_instance", "compute_instance") == (3, 0)
    assert said(one, "gpu_instance", "compute_instance") == (12, None)


def test_global_exception_of_an_sm() -> None:
    text = "Graphics SM Global Exception on (GPC 7, TPC 0, SM 1): Multiple Warp Errors"
    read = only(f"NVRM: Xid (PCI:0000:4f:00): 13, {text}")

    assert read["sm"] == {"gpc": 7, "tpc": 0, "sm": 1, "error": "Multiple Warp Errors"}
    assert read["sm_scope"] == "Global"


def test_an_unknown_code_is_an_event() -> None:
    assert said(only("NVRM: Xid (PCI:0009:06:00): 231, something new"), "xid", "known") == (231, False)


def test_recovery_action_newer_than_the_table() -> None:
    read = only("NVRM: Xid (PCI:0000:4f:00): 154, GPU recovery action changed from 0x0 (None) to 0x9 (Call Home)")

    assert read["recovery"] == {"from_code": 0, "from_name": "None", "to_code": 9, "to_name": "Call Home"}


def test_rate_limited_time_outs_stand_for_more_on_that_gpu_only() -> None:
    first, _, second, other = events(
        "[    1.000000] NVRM: Xid (PCI:0000:4f:00): 119, Timeout after 6s of waiting",
        "[    2.000000] NVRM: Rate limiting GSP RPC error prints for GPU at PCI:0000:4f:00 (printing 1 of every 30).",
        "[    3.000000] NVRM: Xid (PCI:0000:4f:00): 119, Timeout after 6s of waiting",
        "[    3.000000] NVRM: Xid (PCI:0000:5f:00): 119, Timeout after 6s of waiting",
    )

    assert "stands_for_at_most" not in first.fields
    assert second.fields["stands_for_at_most"] == 30
    assert "stands_for_at_most" not in other.fields


def test_uuid_of_the_gpu_is_given_to_its_events() -> None:
    uuid = "GPU-1f0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
    xid, _, serial, other = events(
        "[    1.000000] NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.",
        f"[    1.000001] NVRM: GPU at PCI:0000:4f:00: {uuid}",
        "[    1.000002] NVRM: GPU Board Serial Number: 1320000000042",
        "[    2.000000] NVRM: Xid (PCI:0000:5f:00): 79, GPU has fallen off the bus.",
    )

    assert xid.fields["uuid"] == uuid
    assert (serial.fields["pci"], serial.fields["serial"]) == ("0000:4f:00", "1320000000042")
    assert other.fields["uuid"] is None


def test_a_loss_before_its_number_is_the_same_incident() -> None:
    lost, xid = events(
        "[   10.000001] NVRM: GPU 0000:4f:00.0: GPU has fallen off the bus.",
        "[   10.000031] NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.",
    )

    assert lost.fields["same_incident_as_line"] == xid.first_line
    assert lost.fields["implied_xid"] is None


def test_a_loss_hours_later_counts_for_itself() -> None:
    _, lost = events(
        "[   10.000001] NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.",
        "[ 9999.000001] NVRM: GPU 0000:4f:00.0: GPU has fallen off the bus.",
    )

    assert (lost.fields["implied_xid"], lost.fields["same_incident_as_line"]) == (79, None)


def test_three_line_loss_with_another_line_between() -> None:
    read = only(
        "[   10.000001] NVRM: The NVIDIA GPU 0000:4f:00.0",
        "[   10.000001] NVRM: (PCI ID: 10de:2330) installed in this system has",
        "[   10.000002] eth0: something else",
        "[   10.000003] NVRM: fallen off the bus and is not responding to commands.",
    )

    assert said(read, "kind", "line", "pci_id", "implied_xid") == ("gpu_lost", [1, 4], "10de:2330", 79)


def test_sxid_lines_join_their_verdict_even_when_others_come_between() -> None:
    first, second = events(
        "[1.000001] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
        "[1.000002] nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
        "[1.000003] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, "
        "Severity 1 Engine instance 48 Sub-engine instance 00",
        "[1.000004] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Data {0x10000000, 0x00000001}",
        "[1.000005] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Data {0x00000002}",
    )

    assert (first.fields["severity_code"], first.fields["engine"]) == (1, 48)
    assert first.fields["data"] == ["0x10000000", "0x00000001", "0x00000002"]
    assert "data" not in second.fields


def test_sxid_whose_verdict_is_lost_is_still_an_event() -> None:
    line = "nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 33333, Severity 1 Engine instance 05 Sub-engine instance 00"

    assert said(only(line), "kind", "sxid", "known", "verdict", "engine") == ("sxid", 33333, False, None, 5)


def test_sxid_without_a_link() -> None:
    read = only("nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 10003, Non-fatal, Unhandled host interrupt")

    assert said(read, "link", "text") == (None, "Unhandled host interrupt")


@pytest.mark.parametrize(
    ("text", "device", "severity"),
    [
        ("AER: Corrected error received: id=1700", "0000:17:00.0", "corrected"),
        ("AER: Corrected error received: 0000:17:00.0", "0000:17:00.0", "corrected"),
        ("AER: Uncorrected (Non-Fatal) error received: 0000:17:00.1", "0000:17:00.1", "non-fatal"),
        ("AER: Multiple Uncorrected (Fatal) error received: 0000:17:00.0", "0000:17:00.0", "fatal"),
        ("AER: Correctable error message received from 0000:17:00.0", "0000:17:00.0", "corrected"),
        ("AER: Uncorrectable (Non-Fatal) error message received from 0000:17:00.0", "0000:17:00.0", "non-fatal"),
    ],
)
def test_three_wordings_of_aer(text: str, device: str, severity: str) -> None:
    read = only(f"[  100.000001] pcieport 0000:15:01.0: {text}")

    assert said(read, "kind", "port", "device", "severity") == ("aer", "0000:15:01.0", device, severity)


def test_aer_detail_skips_lines_of_others() -> None:
    read = only(
        "[  100.000002] nvidia 0000:17:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), "
        "type=Data Link Layer, (Receiver ID)",
        "[  100.000003] docker0: port 3 entered blocking state",
        "[  100.000003] nvidia 0000:17:00.0:   device [10de:2330] error status/mask=00000020/00400000",
        "[  100.000004] nvidia 0000:17:00.0:    [ 5] SDES                   (First)",
        "[  100.000004] nvidia 0000:17:00.0:    [12] TLP",
    )

    assert said(read, "line", "severity", "status", "bits") == ([1, 5], "fatal", "00000020", ["SDES", "TLP"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "mlx5_core 0000:6b:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count",
            {
                "kind": "mlx5_health",
                "device": "0000:6b:00.0",
                "text": "device's health compromised - reached miss count",
            },
        ),
        (
            "mlx5_core 0000:6b:00.0: poll_health:800:(pid 0): Fatal error 3 detected",
            {"kind": "mlx5_health", "text": "Fatal error 3 detected"},
        ),
        (
            "mlx5_core 0000:6b:00.0: wait_func:1153:(pid 9017): QUERY_VPORT_STATE(0x750) timeout. "
            "Will cause a leak of a command resource",
            {
                "kind": "mlx5_cmd_error",
                "command": "QUERY_VPORT_STATE",
                "opcode": "0x750",
                "status": "timeout",
                "err": None,
            },
        ),
        (
            "ixgbe 0000:01:00.0 eth0: NIC Link is Down",
            {"kind": "nic_link", "device": "0000:01:00.0", "ifname": "eth0", "state": "down"},
        ),
        (
            "mce: [Hardware Error]: CPU 3: Machine Check: 0 Bank 7: 8c00004000010090",
            {"kind": "mce", "cpu": 3, "bank": 7, "fatal": False},
        ),
        (
            "mce: CPU12: Core temperature is above threshold, cpu clock is throttled (total events = 5)",
            {"kind": "cpu_thermal", "cpu": 12, "sensor": "core", "events": 5},
        ),
        (
            "CPU4: Package temperature above threshold, cpu clock throttled (total events = 900)",
            {"kind": "cpu_thermal", "cpu": 4, "sensor": "package", "events": 900},
        ),
        (
            "NMI watchdog: BUG: soft lockup - CPU#7 stuck for 22s! [kworker/7:1:312]",
            {"kind": "soft_lockup", "cpu": 7, "seconds": 22, "process": "kworker/7:1", "pid": 312},
        ),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 9", {"kind": "hard_lockup", "cpu": 9}),
        ("rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", {"kind": "rcu_stall", "flavour": "rcu_sched"}),
        (
            "NVRM: GPU0 _kgspIsHeartbeatTimedOut: Heartbeat timed out, diff 5201 timeout 5200",
            {"kind": "gsp_heartbeat_timeout", "gsp_gpu_index": 0},
        ),
        (
            "NVRM: _kgspRpcRecvPoll: GSP RM heartbeat timed out",
            {"kind": "gsp_heartbeat_timeout", "gsp_gpu_index": None},
        ),
        (
            "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024",
            {"kind": "driver_loaded", "version": "535.183.01", "open_module": False},
        ),
        (
            "python3[4242]: segfault at 0 ip 00007f14beef1996 sp 00007f13aaaa7c30 error 4",
            {"kind": "segfault", "process": "python3", "pid": 4242, "library": None},
        ),
    ],
)
def test_other_signs(line: str, expected: dict[str, Any]) -> None:
    read = only(f"[  100.000001] {line}")

    assert {name: read.get(name) for name in expected} == expected


def test_a_head_of_no_known_form_hides_no_event() -> None:
    read = only("Tue 2026-03-03 04:05:06 UTC node-a07 kernel: nfs: server nfs-1 not responding, still trying")

    assert said(read, "kind", "host", "server") == ("nfs_not_responding", "node-a07", "nfs-1")


def test_old_oom_form_finds_its_sizes_on_the_next_line() -> None:
    read = only(
        "Out of memory: Kill process 1532 (data loader w) score 1000 or sacrifice child",
        "Killed process 1532 (data loader w) total-vm:900kB, anon-rss:800kB, file-rss:0kB, shmem-rss:7kB",
    )

    assert said(read, "line", "pid", "anon_rss_kb", "file_rss_kb", "shmem_rss_kb") == ([1, 2], 1532, 800, 0, 7)


def test_hung_task_of_an_old_kernel_has_its_state_from_the_table_line() -> None:
    read = only(
        "INFO: task pt_main_thread:52018 blocked for more than 120 seconds.",
        "      Tainted: P           OE     5.4.0-100-generic #113-Ubuntu",
        "pt_main_thread  D    0 52018  51900 0x00004002",
    )

    assert said(read, "line", "state") == ([1, 3], "D")


def test_hung_tasks_in_a_row_keep_apart() -> None:
    first, second = events(
        "INFO: task python3:1 blocked for more than 120 seconds.",
        "INFO: task python3:2 blocked for more than 120 seconds.",
        "task:python3  state:D stack:0     pid:2 tgid:2 ppid:1 flags:0x00004002",
    )

    assert (first.last_line, first.fields["state"]) == (1, None)
    assert (second.last_line, second.fields["state"]) == (3, "D")


def test_carriage_returns_are_no_part_of_the_text() -> None:
    assert only("NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.\r")["text"].endswith("bus.")


def test_every_field_of_every_event_is_in_the_vocabulary() -> None:
    fields = {name: set(said.split()) for name, _, _, said in KERNEL_KINDS}
    log = "\n".join(
        [
            "[Mar 3 04:05] NVRM: Xid (PCI:0000:4f:00): 94, pid=1, name=a, Contained: SM (0x1). RST: No, D-RST: No",
            "[  +0.1] x",
            "[  +0.000731] NVRM: Xid (PCI:0000:4f:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 03 (0x022465c6",
            "<3>[1.000001] nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
            "3,4,5,-;NVRM: GPU 2a:00.0: GPU has fallen off the bus.",
            "pcieport 0000:15:01.0: AER: Corrected error received: id=1700",
            "Out of memory: Killed process 77200 (python3) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB",
        ]
    )
    read = read_kernel(log.encode(), "log").events

    assert len(read) == 6
    assert [set(event.fields) - fields[event.kind] for event in read] == [set()] * 6
