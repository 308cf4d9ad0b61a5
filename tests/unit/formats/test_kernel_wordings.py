"""Wordings of newer kernels, addresses in capitals, colours: what a line says does not hang on how it is dressed."""

import re
import time
from typing import Any

import pytest

from oncall.formats.event import Event
from oncall.formats.kernel import read_kernel
from oncall.formats.kernel_kinds import KERNEL_KINDS
from oncall.formats.kernel_summary import should_page

XID = "NVRM: Xid (PCI:0000:4f:00): 79, pid=1, name=a, GPU has fallen off the bus."


def events(text: str) -> tuple[Event, ...]:
    return read_kernel(text.encode(), "log").events


WORDINGS: list[tuple[str, dict[str, Any]]] = [
    (
        "nvidia 0000:4f:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
        {"kind": "aer_detail", "device": "0000:4f:00.0", "severity": "fatal", "layer": "Transaction Layer"},
    ),
    (
        "nvme 0000:4f:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)",
        {"kind": "aer_detail", "severity": "non-fatal", "agent": "Requester ID"},
    ),
    (
        "nvidia 0000:4f:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)",
        {"kind": "aer_detail", "severity": "corrected", "agent": "Transmitter ID"},
    ),
    (
        "pcieport 0000:4A:01.0: AER: Uncorrected (Fatal) error received: 0000:4F:00.0",
        {"kind": "aer", "port": "0000:4a:01.0", "device": "0000:4f:00.0", "severity": "fatal"},
    ),
    (
        "nvidia 0000:4F:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer, (Receiver ID)",
        {"kind": "aer_detail", "device": "0000:4f:00.0", "severity": "fatal"},
    ),
    (
        "NVRM: GPU at PCI:0000:4F:00: GPU-1F0E2D3C-4B5A-6978-8796-A5B4C3D2E1F0",
        {"kind": "gpu_uuid_map", "pci": "0000:4f:00", "uuid": "GPU-1f0e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"},
    ),
    ("watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 3", {"kind": "hard_lockup", "cpu": 3}),
    ("watchdog: CPU9: Watchdog detected hard LOCKUP on cpu 3", {"kind": "hard_lockup", "cpu": 3}),
    (
        "mlx5_core 0000:C1:00.0: temp_warn:197:(pid 0): High temperature on sensors with bit set 0x0 0x1",
        {"kind": "mlx5_temperature", "device": "0000:c1:00.0", "sensors": "0x0 0x1"},
    ),
    ("mlx5_core 0000:c1:00.0: High temperature on sensors", {"kind": "mlx5_temperature", "sensors": None}),
    ("mlx5_core 0000:C1:00.0 ib0: Link down", {"kind": "nic_link", "device": "0000:c1:00.0", "ifname": "ib0"}),
    (
        "thermal thermal_zone0: critical temperature reached (105 C), shutting down",
        {"kind": "thermal_shutdown", "zone": "thermal_zone0", "celsius": 105},
    ),
    (
        "thermal thermal_zone2: acpitz: critical temperature reached, shutting down",
        {"kind": "thermal_shutdown", "sensor": "acpitz", "celsius": None},
    ),
    ("NVRM: RmInitAdapter failed! (0x26:0xffff:1290)", {"kind": "rm_init_failed", "codes": "0x26:0xffff:1290"}),
    (
        "traps: python3[1005] general protection fault ip:7f14beef1996 sp:7f13aaaa7c30 error:0 in libc.so.6[7f14+1000]",
        {"kind": "trap", "process": "python3", "pid": 1005, "trap": "general protection fault", "library": "libc.so.6"},
    ),
    (
        "traps: python3[1005] general protection ip:7f14beef1996 sp:7f13aaaa7c30 error:0",
        {"kind": "trap", "trap": "general protection", "library": None},
    ),
    (
        "traps: ray::Worker[7] trap invalid opcode ip:7f14 sp:7f13 error:0 in libtorch_cpu.so[7f14+1000]",
        {"kind": "trap", "process": "ray::Worker", "trap": "invalid opcode"},
    ),
]


@pytest.mark.parametrize(("line", "expected"), WORDINGS, ids=[line for line, _ in WORDINGS])
def test_wordings(line: str, expected: dict[str, Any]) -> None:
    (event,) = events(f"[  100.000001] {line}\n")
    told = event.as_json()
    fields = {name: set(said.split()) for name, _, _, said in KERNEL_KINDS}

    assert {name: told.get(name) for name in expected} == expected
    assert set(event.fields) <= fields[event.kind]


@pytest.mark.parametrize(
    "line",
    [
        "thermal thermal_zone0: critical temperature reached (105 C), shutting down",
        "NVRM: RmInitAdapter failed! (0x26:0xffff:1290)",
        "nvidia 0000:4f:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
    ],
)
def test_what_ends_the_use_of_a_machine_or_gpu_wakes_somebody(line: str) -> None:
    (event,) = events(line)
    assert should_page(event)


@pytest.mark.parametrize(
    "line",
    [
        f"\x1b[32m[ 8123.450001] \x1b[0m\x1b[33m{XID[:6]}\x1b[0m{XID[6:]}",
        f"\x1b[1;31m[ 8123.450001] {XID}\x1b[0m\x1b[K",
        "\x1b[32m[ 8123.450001] \x1b[0m\x1b[33mnfs: \x1b[0mserver nfs-1 not responding, still trying",
        "\x1b[32m[ 8123.450001] \x1b[0m\x1b[33mpython3[7]: \x1b[0msegfault at 0 ip 00007f sp 00007ffd error 4",
    ],
)
def test_colours_hide_no_event(line: str) -> None:
    (plain,) = events(re.sub(r"\x1b\[[0-9;]*[mK]", "", line))
    (coloured,) = events(f"\x1b[32m[ 8123.000000] \x1b[0mx\n{line}\n")

    assert coloured.first_line == 2
    assert dict(coloured.fields) == dict(plain.fields)


SWITCH = "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, "


@pytest.mark.parametrize(
    ("first", "line"),
    [
        ("", "NVRM: GPU 0000:4f:00.0: GPU has fallen off the bus."),
        (f"{SWITCH}Fatal, Link 48 up", f"{SWITCH}Data {{0x1}}"),
    ],
)
def test_a_storm_is_read_in_one_pass(first: str, line: str) -> None:
    """Twenty times as many lines may not take sixty times as long."""

    def took(lines: int) -> float:
        storm = "".join(f"[{n / 1e6:12.6f}] {line}\n" for n in range(lines))
        start = time.process_time()
        events(f"{first}\n{storm}")
        return time.process_time() - start

    assert took(20_000) < 60 * max(took(1_000), 0.005)


def test_in_a_storm_each_loss_points_to_the_first_of_its_second() -> None:
    lost = "NVRM: GPU 0000:4f:00.0: GPU has fallen off the bus."
    log = [f"[{at:12.6f}] {lost}" for at in (1.0, 1.9, 2.5, 9.0)]

    assert [event.fields["same_incident_as_line"] for event in events("\n".join(log))] == [None, 1, 2, None]


def test_a_loss_echoes_the_number_that_comes_after_it_too() -> None:
    lost = "NVRM: GPU 0000:4f:00.0: GPU has fallen off the bus."
    log = f"[    1.000000] {lost}\n[    1.000010] {lost}\n[    1.000500] {XID}\n[   99.000000] {lost}\n"
    told = [
        (event.fields["implied_xid"], event.fields["same_incident_as_line"])
        for event in events(log)
        if event.kind == "gpu_lost"
    ]

    assert told == [(None, 3), (None, 3), (79, None)]


@pytest.mark.parametrize(
    ("cut", "unit"), [("NETIR", None), ("NETIR_LINK_EVT", "NETIR_LINK_EVT"), ("NETIR Fa", "NETIR")]
)
def test_a_cut_line_names_a_unit_only_where_it_can_be_no_other(cut: str, unit: str | None) -> None:
    (event,) = events(f"[  100.000001] NVRM: Xid (PCI:0000:4f:00): 149, {cut}")
    shown = event.fields["nvlink5"]
    assert isinstance(shown, dict)
    assert shown["unit"] == unit
