"""What a kernel log amounts to: whom it hurts, by what first, and whether to wake somebody."""

from typing import Any

import pytest

from oncall.formats.event import Event
from oncall.formats.kernel import read_kernel
from oncall.formats.kernel_summary import should_page


def read(*lines: str) -> tuple[Event, ...]:
    return read_kernel("\n".join(lines).encode(), "log").events


def summary(*lines: str) -> dict[str, Any]:
    return dict(read_kernel("\n".join(lines).encode(), "log").summary or {})


def xid(rest: str, *, uptime: str = "1.000000", pci: str = "0000:4f:00") -> str:
    return f"[{uptime:>12}] NVRM: Xid (PCI:{pci}): {rest}"


RECOVERY = "154, GPU recovery action changed from 0x1 (GPU Reset Required) to"


@pytest.mark.parametrize(
    ("line", "page"),
    [
        (xid("79, GPU has fallen off the bus."), True),
        (xid("43, Ch 00000010"), False),
        (xid("231, something new"), None),
        (xid("3, reserved"), None),
        (xid("45, Ch 00000004 caused by previous Xid 149"), True),
        (xid("45, Ch 00000004 caused by previous Xid 231"), None),
        (xid("45, Ch 00000004 caused by previous Xid 31"), False),
        (xid("149, NETIR_LINK_EVT Fatal XC0 i0 Link 03 (0x022465c6 0x00000000)"), True),
        (xid("149, NETIR_LINK_EVT Fatal XC0 i1 Link 03 (0x022465c6 0x00000000)"), False),
        (xid("145, RLW_RXPIPE Nonfatal XC0 i0 Link 07 (0x0408e0c2 0x00000008)"), False),
        (xid("149, NETIR_LINK_EVT"), True),
        (xid(f"{RECOVERY} 0x0 (None)"), False),
        (xid(f"{RECOVERY} 0x2 (Node Reboot Required)"), True),
        ("NVRM: GPU 0000:4f:00.0: GPU has fallen off the bus.", True),
        ("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Non-fatal, Link 48 LTSSM Fault Up", False),
        ("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20001, Fatal, Link 48 replay", True),
        ("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Data {0x0}", True),
        ("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 29999, Data {0x0}", None),
        ("pcieport 0000:15:01.0: AER: Corrected error received: 0000:17:00.0", False),
        ("pcieport 0000:15:01.0: AER: Uncorrected (Fatal) error received: 0000:17:00.0", True),
        ("EDAC MC1: 1 UE memory scrubbing error on DIMM_A1 (channel:0)", True),
        ("EDAC MC1: 1 CE memory read error on DIMM_A1 (channel:0)", False),
        ("nfs: server nfs-1 OK", False),
    ],
)
def test_whether_to_wake_somebody(line: str, page: bool | None) -> None:
    (event,) = read(line)

    assert should_page(event) is page


@pytest.mark.parametrize(
    ("lines", "page"),
    [
        ([xid("43, Ch 00000010")], False),
        ([xid("43, Ch 00000010"), xid("231, something new")], None),
        ([xid("231, something new"), xid("79, GPU has fallen off the bus.")], True),
    ],
)
def test_the_whole_log_is_as_bad_as_its_worst_known_line(lines: list[str], page: bool | None) -> None:
    assert summary(*lines)["page"] is page


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([xid("63, Row Remapper: New row marked"), xid("48, DBE"), xid("94, Contained")], 48),
        ([xid("45, Ch 00000004"), xid("79, GPU has fallen off the bus.")], 79),
        ([xid("45, Ch 00000004 caused by previous Xid 149"), xid("79, GPU has fallen off the bus.")], 149),
        ([xid("45, Ch 00000004")], 45),
        ([xid("231, something new"), xid("79, GPU has fallen off the bus.")], 231),
        (["NVRM: GPU 0000:4f:00.0: GPU has fallen off the bus.", xid("45, Ch 00000004")], 79),
    ],
)
def test_the_first_cause_of_a_gpu(lines: list[str], cause: int) -> None:
    assert summary(*lines)["root_causes"] == {"0000:4f:00": cause}


def test_bursts_are_parted_by_ten_quiet_minutes() -> None:
    lost = "79, GPU has fallen off the bus."

    assert summary(xid(lost, uptime="100.000000"), xid("45, Ch 00000004", uptime="650.000000"))["incidents"] == 1
    assert summary(xid(lost, uptime="100.000000"), xid(lost, uptime="900.000000"))["incidents"] == 2
    assert summary(xid(lost, uptime="9000.000000"), xid(lost, uptime="5.000000"))["incidents"] == 2
    assert summary(f"NVRM: Xid (PCI:0000:4f:00): {lost}")["incidents"] is None
    assert summary("nfs: server nfs-1 OK")["incidents"] == 0


def test_one_hurt_gpu_is_named_and_several_are_not() -> None:
    one = summary(xid("31, MMU Fault"), xid("43, Ch 00000010"))
    two = summary(xid("31, MMU Fault"), xid("31, MMU Fault", pci="0000:5f:00"))

    assert (one["gpu"], one["root"], one["action"]) == ("0000:4f:00", "31 (user-app)", "restart_app")
    assert "gpu" not in two


def test_an_interface_flaps_when_it_comes_back() -> None:
    lines = [
        f"mlx5_core 0000:6b:00.0 eth0: Link {state}" for state in ("up", "down", "up", "down", "down", "up", "down")
    ]

    assert summary(*lines)["flap"] == {"eth0": 2}
