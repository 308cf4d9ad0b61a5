"""The kernel's own clock drifts; what its journal took in when ties each line to the time of day."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from oncall.formats.kernel import read_kernel
from oncall.formats.kernel_journal import read_anchors
from oncall.formats.kernel_time import Anchor, EventTime, NodeClock, event_time, tied
from oncall.readings.finding import Role
from oncall.readings.hardware import hardware
from oncall.readings.kernel_set import kernel_set

from ..readings.evidence import BOUNDARY, NOW, Scene

XID = "NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus."
UPTIME_S = 30 * 86_400.0
BOOT = NOW - timedelta(seconds=UPTIME_S)
CLOCK = NodeClock(NOW, 0.5, UPTIME_S, UTC)
FAST = 1 + 80e-6
"""A kernel's clock that gains 80 ppm: 207 s in 30 days."""


def shown(at: datetime) -> float:
    """What that clock shows at a time of day."""
    return (at - BOOT).total_seconds() * FAST


def entry(at: datetime, *, late_s: float = 0.0, **odd: object) -> str:
    """A line of `journalctl -o json`, which gives numbers as text."""
    taken_in = int((at - datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=late_s)) / timedelta(microseconds=1))
    fields = {
        "__CURSOR": "s=1",
        "__REALTIME_TIMESTAMP": str(taken_in),
        "__MONOTONIC_TIMESTAMP": "5",
        "_BOOT_ID": "b",
        "_SOURCE_MONOTONIC_TIMESTAMP": str(round(shown(at) * 1e6)),
    }
    return json.dumps({**fields, **odd})


def placed(at: datetime, clock: NodeClock) -> EventTime:
    (event,) = read_kernel(f"[{shown(at):.6f}] {XID}".encode(), "log").events
    found = event_time(event, clock)
    assert isinstance(found, EventTime)
    return found


HIT = NOW - timedelta(seconds=900)


@pytest.mark.parametrize("apart_s", [0.0, 3_600.0, -600.0, 86_400.0])
def test_a_line_is_placed_by_the_journal_whatever_the_clock_has_gained(apart_s: float) -> None:
    clock = tied(CLOCK, read_anchors(entry(HIT - timedelta(seconds=apart_s))))
    found = placed(HIT, clock)
    assert abs((found.at - HIT).total_seconds()) <= found.uncertainty_s
    assert found.uncertainty_s == pytest.approx(0.6 + abs(apart_s) * 1e-4, abs=0.02)


def test_without_a_journal_the_uncertainty_covers_what_the_clock_has_gained() -> None:
    found = placed(HIT, CLOCK)
    assert abs((found.at - HIT).total_seconds()) <= found.uncertainty_s
    assert found.uncertainty_s > 200


def test_of_messages_near_to_each_other_the_one_that_was_least_late_counts() -> None:
    late = [entry(HIT + timedelta(seconds=n), late_s=4.0) for n in range(9)]
    clock = tied(CLOCK, read_anchors("\n".join([*late, entry(HIT + timedelta(seconds=20), late_s=0.01)])))
    assert abs((placed(HIT, clock).at - HIT).total_seconds()) < 0.1


@pytest.mark.parametrize(
    "line",
    [
        "",
        "not json",
        "[]",
        '{"__REALTIME_TIMESTAMP": "1"}',
        '{"__REALTIME_TIMESTAMP": 5, "_SOURCE_MONOTONIC_TIMESTAMP": 7}',
        '{"__REALTIME_TIMESTAMP": "99999999999999999999", "_SOURCE_MONOTONIC_TIMESTAMP": "7"}',
        '{"__REALTIME_TIMESTAMP": "9999999999999999999", "_SOURCE_MONOTONIC_TIMESTAMP": "7"}',
        '{"__REALTIME_TIMESTAMP": "-1", "_SOURCE_MONOTONIC_TIMESTAMP": "-7"}',
        entry(HIT, _SOURCE_MONOTONIC_TIMESTAMP=["1", "2"]),
        "[" * 5000,
    ],
)
def test_lines_of_no_use_are_passed_over(line: str) -> None:
    assert tied(CLOCK, read_anchors(f"{line}\n{entry(HIT)}\n")).anchors == read_anchors(entry(HIT))


@pytest.mark.parametrize("wrong_s", [-3600.0, 3600.0, 86_400.0 * 365])
def test_what_the_journal_took_in_under_another_clock_or_boot_is_not_believed(wrong_s: float) -> None:
    anchor = Anchor(shown(HIT), HIT + timedelta(seconds=wrong_s))
    assert tied(CLOCK, [anchor]).anchors == ()
    assert tied(NodeClock(NOW, 0.5), [anchor]).anchors == ()


def kernel_of(scene: Scene, first: datetime, second: datetime, *, journal: bool) -> Scene:
    """Two nodes, each with a lost GPU, both up for 30 days; a journal where told."""
    clock = ("clock", {}, f"{NOW.timestamp():.9f}\n+0000\n{UPTIME_S:.2f} 1.0\n")
    scene.say("kernel", {"node001": [], "node002": []})
    evidence = scene.case.evidence("kernel")
    assert evidence is not None
    for host, at in (("node001", first), ("node002", second)):
        parts = [clock, ("kernel", {"form": "dmesg"}, f"[{shown(at):.6f}] {XID}\n")]
        parts += [("anchors", {}, entry(at + timedelta(seconds=30)) + "\n")] if journal else []
        text = "".join(f"\n{BOUNDARY}\t{name}\n{told}" for name, _, told in [*parts, ("end", {}, "")])
        (evidence.folder / str(evidence.answers[host].file)).write_text(text)
    scene.case.add(evidence)
    return scene


@pytest.mark.parametrize(("journal", "rivals"), [(True, False), (False, True)])
def test_two_faults_400_s_apart_are_told_apart_after_30_days(journal: bool, rivals: bool, tmp_path: Path) -> None:
    scene = kernel_of(Scene(tmp_path), HIT, HIT + timedelta(seconds=400), journal=journal)
    first = next(f for f in hardware(scene.case).findings if f.role is Role.ORIGIN and f.hosts == ("node001",))
    assert ("may have been first" in first.text) is rivals


def test_a_kernel_set_is_placed_by_its_own_nodes_journal(tmp_path: Path) -> None:
    scene = kernel_of(Scene(tmp_path), HIT, HIT, journal=True)
    kernels = scene.case.view("kernel", kernel_set)
    assert kernels is not None
    assert [abs((e.at - HIT).total_seconds()) < 0.1 if e.at else None for e in kernels.events] == [True, True]
