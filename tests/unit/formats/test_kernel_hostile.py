"""A kernel log is anything: no bytes raise, none take long, and none of it is lost behind a bad line."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncall.formats import kernel
from oncall.formats.kernel import SIGNATURES, read_kernel

XID = b"[    1.000000] NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus.\n"
NEEDLES = [signature.needle for signature in SIGNATURES]
PIECES = [
    b"[ 1.000000] ",
    b"<3>",
    b"3,4,5,-;",
    b"Mar  3 04:05:06 n kernel: ",
    b"message repeated 5 times: [ ",
    b"(PCI:0000:4f:00): 79, pid=1, name=",
    b"AER: Corrected error received: ",
    b"0000:17:00.0: ",
    b"]" * 40,
    b"\x00\xff\xfe",
    b"\n",
]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(NEEDLES + PIECES) | st.binary(max_size=12), max_size=30).map(b"".join))
def test_no_bytes_raise_and_a_good_line_after_them_is_read(junk: bytes) -> None:
    parsed = read_kernel(junk + b"\n" + XID, "log")

    assert parsed.events[-1].fields["xid"] == 79
    assert parsed.events[-1].first_line == junk.count(b"\n") + 2


@pytest.mark.parametrize(
    "line",
    [
        b"NVRM: " + b"[" * 200_000,
        b"NVRM: Xid (" * 20_000,
        b"[ 1.000000] " * 20_000 + b"NVRM: ",
        b"mlx5_core 0000:6b:00.0: " + b"x(0x1) " * 30_000,
        b"x: segfault at " * 20_000,
        b"Mar  3 04:05:06 n kernel: " * 10_000 + b"NVRM: ",
        b"NVRM: " + b"assertion failed: " * 10_000,
        b"a" * 200_000 + b" invoked oom-killer: ",
        b" " * 200_000 + b"EDAC MC",
    ],
    ids=lambda line: line[:20].decode(),
)
def test_a_long_line_costs_little(line: bytes) -> None:
    log = (line + b"\n") * 20
    start = time.process_time()

    read_kernel(log, "log")

    assert time.process_time() - start < 0.5


def test_events_are_bounded_and_the_summary_says_where_reading_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "MAX_EVENTS", 3)

    parsed = read_kernel(XID * 5, "log")

    assert len(parsed.events) == 3
    assert parsed.summary is not None
    assert parsed.summary["stopped_after_line"] == 3


def test_an_empty_log_says_nothing() -> None:
    assert read_kernel(b"", "log").summary is None


def test_the_last_line_needs_no_end() -> None:
    assert len(read_kernel(XID.rstrip(b"\n"), "log").events) == 1
