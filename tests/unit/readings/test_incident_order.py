"""Causes come before consequences: bursts over many hosts fold to what was first and what it led to."""

import itertools
import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncall.formats.event import Event
from oncall.formats.kernel import read_kernel
from oncall.readings.incident_order import IncidentOrder, Occurrence, order

START = datetime(2026, 3, 3, 4, 5, 6, tzinfo=UTC)
_lines = itertools.count(1)


def xid(code: int, host: str, after_s: float, *, pci: str = "0000:4f:00", uncertainty_s: float = 0.1) -> Occurrence:
    (event,) = read_kernel(f"NVRM: Xid (PCI:{pci}): {code}, some text".encode(), host).events
    return Occurrence(event, host, START + timedelta(seconds=after_s), uncertainty_s)


def said(kind: str, host: str, after_s: float | None, *, uncertainty_s: float = 0.1, **fields: Any) -> Occurrence:
    at = None if after_s is None else START + timedelta(seconds=after_s)
    line = next(_lines)
    return Occurrence(Event(kind, f"{host}.log", line, line, fields), host, at, uncertainty_s)


def firsts(found: IncidentOrder) -> list[tuple[str, int | None, str]]:
    return [
        (incident.first.event.kind, incident.first.event.number("xid"), incident.first.host)
        for incident in found.incidents
    ]


def led_to(found: IncidentOrder, at: int = 0) -> dict[tuple[str, int | None], int]:
    return {(each.kind, each.code): each.count for each in found.incidents[at].led_to}


def burst(ranks: int) -> list[Occurrence]:
    """One GPU falls off the bus at rank 700; every other rank waits out its 30 minutes and says so in four ways."""
    host = "node-087"
    events = [
        xid(79, host, 0.0, uncertainty_s=1.0),
        said("gpu_lost", host, 0.0, uncertainty_s=1.0, pci="0000:4f:00"),
        said("aer", host, 0.4, uncertainty_s=1.0, severity="fatal"),
    ]
    rng = random.Random(1)
    for rank in range(ranks):
        if rank == 700:
            continue
        node, gave_up = f"node-{rank // 8:03}", 1800 + rng.uniform(-2, 8)
        waited_ms = round(1000 * (gave_up + rng.uniform(-1, 2)))
        events.append(said("nccl_timeout", node, gave_up, rank=rank, ran_ms=waited_ms))
        events.append(said("watchdog_failure", node, gave_up + 1, rank=rank))
        events.append(said("watchdog_terminated", node, gave_up + 60, rank=rank))
        events.append(said("elastic_worker_failed", node, gave_up + 62, rank=rank))
        events.append(xid(45, node, gave_up + 62, pci=f"0000:{rank % 8:02x}:00"))
    rng.shuffle(events)
    return events


def test_one_lost_gpu_and_1023_time_outs_are_one_incident_cause_first() -> None:
    events = burst(1024)
    start = time.process_time()

    found = order(events)

    assert time.process_time() - start < 2.0
    assert firsts(found) == [("xid", 79, "node-087")]
    assert led_to(found) == {
        ("gpu_lost", None): 1,
        ("aer", None): 1,
        ("nccl_timeout", None): 1023,
        ("watchdog_failure", None): 1023,
        ("watchdog_terminated", None): 1023,
        ("elastic_worker_failed", None): 1023,
        ("xid", 45): 1023,
    }
    assert found.rivals == ()


def test_consequences_are_listed_in_time_and_with_their_hosts() -> None:
    found = order(
        [
            said("nccl_timeout", "b", 605, ran_ms=600_000),
            said("nccl_timeout", "c", 604, ran_ms=600_000),
            xid(79, "a", 0),
            xid(45, "a", 3),
        ]
    )

    assert [(each.kind, each.hosts) for each in found.incidents[0].led_to] == [
        ("xid", ("a",)),
        ("nccl_timeout", ("c", "b")),
    ]


def test_time_outs_without_a_cause_are_one_incident_of_their_own() -> None:
    found = order([said("nccl_timeout", f"n{rank}", 600 + rank % 3, ran_ms=600_000) for rank in range(64)])

    assert len(found.incidents) == 1
    assert led_to(found) == {("nccl_timeout", None): 63}


def test_an_error_after_ranks_began_to_wait_did_not_make_them_wait() -> None:
    found = order([said("nccl_timeout", "b", 1800, ran_ms=1_800_000), xid(79, "a", 1790)])

    assert firsts(found) == [("nccl_timeout", None, "b"), ("xid", 79, "a")]
    assert led_to(found) == {}


def test_an_error_of_yesterday_is_not_the_cause() -> None:
    found = order([xid(79, "a", -86_400), said("nccl_timeout", "b", 600, ran_ms=600_000)])

    assert firsts(found) == [("xid", 79, "a"), ("nccl_timeout", None, "b")]


def test_of_two_errors_the_last_one_before_a_rank_began_to_wait_is_the_cause() -> None:
    found = order([xid(79, "a", 0), xid(79, "b", 1000), said("nccl_timeout", "c", 1605, ran_ms=600_000)])

    assert firsts(found) == [("xid", 79, "a"), ("xid", 79, "b")]
    assert led_to(found, 1) == {("nccl_timeout", None): 1}


@pytest.mark.parametrize("code", [13, 31])
def test_a_fault_of_the_program_after_a_lost_gpu_is_fallout(code: int) -> None:
    assert firsts(order([xid(code, "a", 1), xid(79, "a", 0)])) == [("xid", 79, "a")]


@pytest.mark.parametrize("code", [13, 31])
def test_a_fault_of_the_program_before_a_lost_gpu_stands_by_itself(code: int) -> None:
    assert firsts(order([xid(code, "a", 0), xid(79, "a", 30)])) == [("xid", code, "a"), ("xid", 79, "a")]


def test_a_fault_of_the_program_on_another_host_is_not_fallout_of_a_lost_gpu() -> None:
    assert firsts(order([xid(79, "a", 0), xid(31, "b", 5)])) == [("xid", 79, "a"), ("xid", 31, "b")]


def test_one_bug_on_all_hosts_is_one_incident() -> None:
    found = order([xid(31, f"n{host}", host * 0.1) for host in range(16)] + [xid(43, "n3", 2), xid(45, "n3", 2)])

    assert firsts(found) == [("xid", 31, "n0")]
    assert led_to(found) == {("xid", 31): 15, ("xid", 43): 1, ("xid", 45): 1}


def test_channel_removals_before_their_cause_within_the_clock_follow_it() -> None:
    found = order([xid(45, "a", 0.0, uncertainty_s=1.0), xid(149, "a", 0.5, uncertainty_s=1.0)])

    assert firsts(found) == [("xid", 149, "a")]


def test_links_that_break_after_a_gpu_is_lost_are_its_consequence() -> None:
    sxid = said("sxid", "a", 30, sxid=20034, verdict="Fatal")

    assert firsts(order([sxid, xid(79, "a", 0), xid(74, "b", 31)])) == [("xid", 79, "a")]


def test_two_gpus_lost_at_once_on_two_hosts_are_rivals() -> None:
    found = order([xid(79, "a", 0, uncertainty_s=2), xid(79, "b", 3, uncertainty_s=2), said("nccl_timeout", "c", 9)])

    assert firsts(found) == [("xid", 79, "a"), ("xid", 79, "b")]
    assert [rival.host for rival in found.rivals] == ["b"]
    assert led_to(found) == {("nccl_timeout", None): 1}


def test_with_good_clocks_they_are_not() -> None:
    assert order([xid(79, "a", 0), xid(79, "b", 3)]).rivals == ()


def test_lines_of_one_second_keep_the_order_of_their_log() -> None:
    log = "\n".join(f"2026-03-03T04:05:06Z a kernel: NVRM: Xid (PCI:0000:4f:00): {code}, text" for code in (48, 95, 79))
    events: Sequence[Event] = read_kernel(log.encode(), "log").events

    found = order([Occurrence(event, "a", START, 1.0) for event in reversed(events)])

    assert firsts(found) == [("xid", 48, "a")]


def test_an_unknown_code_may_be_the_cause() -> None:
    assert firsts(order([xid(231, "a", 0), said("watchdog_failure", "b", 60)])) == [("xid", 231, "a")]


def test_what_only_informs_is_left_out() -> None:
    found = order(
        [
            xid(63, "a", 0),
            said("aer", "a", 1, severity="corrected"),
            said("edac", "a", 1, type="CE"),
            said("mce", "a", 1, logged=True),
            said("nic_link", "a", 1, state="up"),
            said("driver_loaded", "a", 1),
        ]
    )

    assert found == IncidentOrder((), (), ())


def test_an_injected_link_error_is_no_cause() -> None:
    line = "NVRM: Xid (PCI:0008:01:00): 144, SAW_MVB Nonfatal XC0 i1 Link 00 (0x00000001 0x00000008)"
    (event,) = read_kernel(line.encode(), "log").events

    assert order([Occurrence(event, "a", START)]).incidents == ()


def test_a_killed_process_before_its_peers_time_out() -> None:
    found = order(
        [
            said("oom_kill", "a", 0, pid=77_123),
            said("elastic_worker_failed", "a", 1, rank=61),
            said("nccl_timeout", "b", 600, ran_ms=598_000),
        ]
    )

    assert firsts(found) == [("oom_kill", None, "a")]
    assert len(found.incidents[0].led_to) == 2


def test_a_file_server_that_is_silent_for_all() -> None:
    events = [said("nfs_not_responding", f"n{host}", host, server="nfs-1") for host in range(8)]
    events += [said("hung_task", f"n{host}", 120 + host, process="python3") for host in range(8)]

    found = order(events)

    assert firsts(found) == [("nfs_not_responding", None, "n0")]
    assert led_to(found) == {("nfs_not_responding", None): 7, ("hung_task", None): 8}


def test_a_hung_task_may_be_told_before_the_silent_server_that_holds_it() -> None:
    events = [
        said("hung_task", "a", 240, process="python3", seconds=120),
        said("nfs_not_responding", "a", 290, server="nfs-1"),
    ]

    assert firsts(order(events)) == [("nfs_not_responding", None, "a")]


def test_a_server_that_falls_silent_later_does_not_explain_a_hung_task() -> None:
    events = [
        said("hung_task", "a", 240, process="python3", seconds=120),
        said("nfs_not_responding", "a", 2000, server="nfs-1"),
    ]

    assert firsts(order(events)) == [("hung_task", None, "a"), ("nfs_not_responding", None, "a")]


def test_channels_freed_when_ranks_end_belong_to_what_made_them_end() -> None:
    found = order(
        [
            xid(79, "a", 0),
            said("nccl_timeout", "b", 1802, ran_ms=1_800_000),
            said("elastic_worker_failed", "b", 1860),
            xid(45, "b", 1861),
            xid(45, "c", 1863),
        ]
    )

    assert firsts(found) == [("xid", 79, "a")]
    assert led_to(found)["xid", 45] == 2


def test_events_without_a_time_have_no_place_but_are_not_lost() -> None:
    lost = said("gpu_lost", "a", None)

    found = order([lost, said("driver_loaded", "a", None)])

    assert found.incidents == ()
    assert found.unplaced == (lost,)


def test_folded_lines_count_as_many() -> None:
    log = b"May 28 21:05:31 a kernel: message repeated 37 times: [ NVRM: Xid (PCI:0000:c6:00): 45, Ch 00000006]"
    (event,) = read_kernel(log, "log").events

    found = order([xid(149, "a", 0), Occurrence(event, "a", START + timedelta(seconds=1), 1.0)])

    assert led_to(found) == {("xid", 45): 37}


def test_a_storm_of_unrelated_faults_is_ordered_in_time() -> None:
    events = [xid(79, f"n{host}", host * 0.5, uncertainty_s=1.0) for host in range(2000)]
    events += [said("nccl_timeout", "z", second * 2.0, ran_ms=600_000) for second in range(5000)]
    start = time.process_time()

    found = order(events)

    assert time.process_time() - start < 2.0
    times = [incident.first.at for incident in found.incidents if incident.first.at is not None]
    assert sum(incident.first.event.number("xid") == 79 for incident in found.incidents) == 2000
    assert len(times) == len(found.incidents)
