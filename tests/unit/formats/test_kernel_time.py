"""Times of kernel logs in UTC: each form, with how far it may be off, and why some cannot be placed."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from oncall.formats.event import Event
from oncall.formats.kernel import read_kernel
from oncall.formats.kernel_time import KERNEL_CLOCK_DRIFT, EventTime, NodeClock, Unplaced, event_time

XID = "NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus."
BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
CLOCK = NodeClock(now=NOW, error_s=0.2, uptime_s=100_000.0, zone=BERLIN)


def event(line: str) -> Event:
    (read,) = read_kernel(line.encode(), "log").events
    return read


def placed(line: str, clock: NodeClock | None = CLOCK) -> EventTime:
    when = event_time(event(line), clock)
    assert isinstance(when, EventTime)
    return when


def refused(line: str, clock: NodeClock | None) -> str:
    when = event_time(event(line), clock)
    assert isinstance(when, Unplaced)
    return when.reason


def test_a_full_stamp_needs_no_clock() -> None:
    when = placed(f"2026-06-30T23:59:58.332316+02:00 n kernel: {XID}", None)

    assert when == EventTime(datetime(2026, 6, 30, 21, 59, 58, 332316, UTC), pytest.approx(1e-6))


def test_whole_seconds_are_true_to_a_second() -> None:
    assert placed(f"2026-06-30T21:59:59Z n kernel: {XID}", None).uncertainty_s == 1.0


def test_the_clock_error_of_the_node_is_added() -> None:
    assert placed(f"2026-03-03T21:59:59-0800 n kernel: {XID}") == EventTime(
        datetime(2026, 3, 4, 5, 59, 59, tzinfo=UTC), pytest.approx(1.2)
    )


def test_uptime_counts_back_from_now_and_drifts_with_the_time_since_boot() -> None:
    when = placed(f"[ 90000.500000] {XID}")

    assert when.at == NOW - timedelta(seconds=100_000 - 90_000.5)
    assert when.uncertainty_s == pytest.approx(0.2 + 90_000.5 * KERNEL_CLOCK_DRIFT)


def test_local_stamp_of_dmesg_is_brought_to_utc() -> None:
    when = placed(f"[Tue Mar  3 16:24:18 2026] {XID}")

    assert when.at == datetime(2026, 3, 3, 15, 24, 18, tzinfo=UTC)
    boot = NOW - timedelta(seconds=100_000)
    assert when.uncertainty_s == pytest.approx(1.2 + (when.at - boot).total_seconds() * KERNEL_CLOCK_DRIFT)


@pytest.mark.parametrize(
    ("stamp", "year"),
    [("Mar  3 16:24:18", 2026), ("Mar  4 14:00:00", 2026), ("Mar  6 16:24:18", 2025), ("Dec 31 23:59:59", 2025)],
)
def test_a_stamp_without_year_is_not_in_the_future(stamp: str, year: int) -> None:
    assert placed(f"{stamp} n kernel: {XID}").at.astimezone(BERLIN).year == year


def test_the_turn_of_the_year_in_the_nodes_zone() -> None:
    clock = NodeClock(now=datetime(2025, 12, 31, 23, 30, tzinfo=UTC), error_s=0.0, zone=BERLIN)

    assert placed(f"Jan  1 00:20:00 n kernel: {XID}", clock).at == datetime(2025, 12, 31, 23, 20, tzinfo=UTC)


def test_29_february_belongs_to_a_leap_year() -> None:
    assert placed(f"Feb 29 12:00:00 n kernel: {XID}").at.year == 2024


def test_relative_times_are_summed_from_the_dated_line() -> None:
    log = "\n".join(
        [
            "[Mar 3 16:24] usb 1-14: new device",
            "[  +1.500000] docker0: port 3 entered blocking state",
            f"[  +2.250000] {XID}",
            "[Mar 3 16:25] usb 1-14: gone",
            f"[  +0.250000] {XID}",
        ]
    )
    first, second = read_kernel(log.encode(), "log").events

    assert (first.fields["dated_ts"], first.fields["since_dated_s"]) == ("03-03T16:24", 3.75)
    assert (second.fields["dated_ts"], second.fields["since_dated_s"]) == ("03-03T16:25", 0.25)
    when = event_time(first, CLOCK)
    assert when == EventTime(datetime(2026, 3, 3, 15, 24, 3, 750_000, UTC), pytest.approx(60.2))


def test_relative_time_before_any_dated_line_is_not_known() -> None:
    assert event(f"[  +0.250000] {XID}").fields["since_dated_s"] is None
    assert refused(f"[  +0.250000] {XID}", CLOCK) == "the line holds no time"


@pytest.mark.parametrize(
    ("line", "clock", "reason"),
    [
        (XID, CLOCK, "holds no time"),
        (f"[ 90000.500000] {XID}", None, "uptime is not known"),
        (f"[ 90000.500000] {XID}", NodeClock(NOW, 0.0), "uptime is not known"),
        (f"[200000.500000] {XID}", CLOCK, "before the last boot"),
        (f"Mar  3 16:24:18 n kernel: {XID}", None, "nothing is known of the node's clock"),
        (f"Mar  3 16:24:18 n kernel: {XID}", NodeClock(NOW, 0.0, 1.0), "time zone is not known"),
        (f"Feb 31 16:24:18 n kernel: {XID}", CLOCK, "no such time"),
        (f"[Tue Mar 99 16:24:18 2026] {XID}", CLOCK, "no such time"),
    ],
)
def test_what_cannot_be_placed_says_why(line: str, clock: NodeClock | None, reason: str) -> None:
    assert reason in refused(line, clock)


def test_three_notations_of_one_second_agree() -> None:
    lines = (
        f"2026-06-30T23:59:58.332316+02:00 n kernel: {XID}",
        f"2026-06-30T23:59:58+0200 n kernel: {XID}",
        f"2026-06-30T21:59:59Z n kernel: [  512.100200] {XID}",
    )
    times = [placed(line, None).at for line in lines]

    assert max(times) - min(times) <= timedelta(seconds=1)
