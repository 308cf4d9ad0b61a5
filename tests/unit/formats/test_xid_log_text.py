"""What `oncall xid < log` tells of each line: nothing that decides what to do stays hidden behind a code."""

import json
import os
import re
from pathlib import Path

import pytest

from oncall.formats.kernel import read_kernel
from oncall.report.xid_log_text import log_text

SHARED = Path(os.environ.get("ONCALL_SHARED", Path(__file__).resolve().parents[4] / "shared"))
RECOVERY = "GPU recovery action changed from 0x{} ({}) to 0x{} ({})"


def told(*lines: str) -> str:
    """The explanation on one line, as it would be on a terminal without end."""
    log = "".join(f"[{second:5}.000001] {line}\n" for second, line in enumerate(lines, 1))
    return re.sub(r"\s+", " ", log_text("log", read_kernel(log.encode(), "log")))


def xid(code: int, text: str, pci: str = "0000:4f:00") -> str:
    return f"NVRM: Xid (PCI:{pci}): {code}, {text}"


def test_each_new_value_of_the_recovery_action_is_told() -> None:
    text = told(
        xid(154, RECOVERY.format(0, "None", 4, "Drain and Reset")),
        xid(154, RECOVERY.format(4, "Drain and Reset", 1, "GPU Reset Required")),
    )
    assert "now Drain and Reset" in text
    assert "now GPU Reset Required" in text


def test_the_cause_that_a_follow_up_names_and_a_wanted_reset() -> None:
    assert "caused by Xid 149" in told(xid(45, "Ch 00000011 caused by previous Xid 149"))
    assert "needs a reset" in told(xid(94, "Contained: SM (0x1). RST: Yes, D-RST: No"))
    assert "needs a reset" not in told(xid(94, "Contained: SM (0x1). RST: No, D-RST: No"))


def test_an_nvlink_error_tells_unit_verdict_link_and_what_its_words_mean() -> None:
    text = told(xid(145, "RLW_RXPIPE Nonfatal XC0 i0 Link 11 (0x040960c2 0x00000008 0x00000002)"))
    assert "RLW_RXPIPE; nonfatal; link 11" in text
    assert "words 0x040960c2 0x00000008" in text
    assert "injected" not in text
    assert "injected by a test" in told(xid(144, "SAW_MVB Nonfatal XC0 i1 Link 00 (0x00000001 0x00000008)"))
    assert (
        "link" not in told(xid(149, "NETIR Fatal XC0 i0 Link -1 (0x000fe006 0x00000000)")).partition("NETIR; ")[2][:12]
    )


def test_words_that_no_table_has_are_not_called_harmless() -> None:
    text = told(xid(145, "RLW_RXPIPE Nonfatal XC0 i0 Link 11 (0x3f0960c2 0xffffffff)"))
    assert "no table has a row for them" in text


ADVICE = {
    "RESET_GPU": "at once: reset the GPU",
    "IGNORE": "at once: nothing",
    "XID_154_EVAL": "the Xid 154 of that GPU",
}


def test_every_row_of_the_published_table_is_told_with_its_advice() -> None:
    """Interrupt words are put together by the layout before R575: unit in bits 9:0, link in 17:13, status in 25:20."""
    path = SHARED / "xid/xid_catalog.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    checked = 0
    for unit in json.loads(path.read_bytes())["nvlink5_decode"]["units"]:
        bits = re.fullmatch("[01]{10}", unit["v1_bits_9_0"] or "")
        for row in unit["variants"] if bits else ():
            word = row["status_bits_25_20"] << 20 | 3 << 13 | int(bits[0], 2)
            line = f"{unit['unit']} Nonfatal XC0 i0 Link 03 (0x{word:08x} {row['error_status']})"
            assert ADVICE[row["immediate"]] in told(xid(unit["xid"], line)), line
            checked += 1
    assert checked > 20


def test_every_code_of_a_switch_is_explained() -> None:
    path = SHARED / "logs/kernel-09-sxid/dmesg.txt"
    if not path.exists():
        pytest.skip(f"no {path}")
    text = log_text("dmesg", read_kernel(path.read_bytes(), "dmesg"))
    for code, words in (("20034", "Fatal, link 48"), ("12028", "Non-fatal, link 32"), ("11012", "Correctable, link 5")):
        block = text.partition(f"\nSXid {code}: ")[2].partition("\n\n")[0]
        assert "unit" in block, code
        assert words in re.sub(r"\s+", " ", block)


def test_a_gpu_without_a_first_code_is_not_left_out() -> None:
    assert "GPU 0000:4f:00" in told(xid(144, "SAW_MVB Nonfatal XC0 i1 Link 00 (0x00000001 0x00000008)"))
    assert "could not start a GPU" in told("NVRM: GPU 0000:4f:00.0: RmInitAdapter failed! (0x26:0xffff:1290)")


def test_a_storm_is_one_row_and_rows_are_bounded() -> None:
    assert "400 in all" in told(*[xid(45, "Ch 00000010")] * 400)
    many = told(*[xid(79, "lost"), *(xid(200 + n, "new") for n in range(50))])
    assert "and 31 more kinds of lines" in many


def test_other_signs_tell_interface_and_state() -> None:
    text = told("mlx5_core 0000:c1:00.0 ib0: Link down", "IPv6: ADDRCONF(NETDEV_CHANGE): ib1: link becomes ready")
    assert "network link ib0 of 0000:c1:00.0 went down" in text
    assert "network link ib1 went up" in text
