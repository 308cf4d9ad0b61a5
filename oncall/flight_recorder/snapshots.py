"""Says what moved between two dumps of the same ranks: nothing, everything, or all but a few."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from oncall.flight_recorder.groups import resolve
from oncall.flight_recorder.model import DumpSet, RankDump

if TYPE_CHECKING:
    from oncall.flight_recorder.slowness import SlowRank


class Pace(StrEnum):
    """What two snapshots say about a job; each value is what `--json` prints."""

    STUCK = "stuck"
    """No rank issued or finished anything in between."""
    SLOW = "slow"
    """All ranks went on, and the others wait for the same one or two."""
    RUNNING = "running"
    """All ranks went on, and none is waited for more than the others."""
    MOVING = "moving"
    """All ranks went on, and whether one is waited for cannot be told."""
    PARTLY = "partly"
    """Some ranks went on and others did not: the job runs into a standstill, or they do without each other."""
    UNKNOWN = "unknown"
    """No rank has a dump in both snapshots."""


@dataclass(frozen=True, slots=True)
class Movement:
    """The difference of two snapshots: ranks that went on, ranks that did not, ranks seen only once, slow ranks.

    `untold` is why a moving job with no slow rank may have one all the same.
    """

    pace: Pace
    moved: tuple[int, ...]
    still: tuple[int, ...]
    seen_once: tuple[int, ...]
    slow: "tuple[SlowRank, ...]"
    untold: str | None
    says: str


def compare(new: DumpSet, old: DumpSet) -> Movement:
    """Compare two snapshots by each rank's own record, counters and open operations; clocks are not used.

    A snapshot older than the other is not required to be complete: ranks with a dump on one side only are listed.
    """
    both = sorted(new.dumps.keys() & old.dumps.keys())
    once = tuple(sorted(new.dumps.keys() ^ old.dumps.keys()))
    moved = tuple(rank for rank in both if _progress(new.dumps[rank]) != _progress(old.dumps[rank]))
    still = tuple(rank for rank in both if rank not in set(moved))
    slow: tuple[SlowRank, ...] = ()
    untold = None
    if not both:
        pace = Pace.UNKNOWN
    elif not moved:
        pace = Pace.STUCK
    elif still:
        pace = Pace.PARTLY
    else:
        from oncall.flight_recorder.slowness import slow_ranks  # noqa: PLC0415  # one dump a rank needs no statistics

        found = slow_ranks(new, resolve(new.dumps, None))
        slow, untold = found.slow, found.untold
        pace = Pace.SLOW if slow else Pace.MOVING if untold else Pace.RUNNING
    return Movement(pace, moved, still, once, slow, untold, _says(pace, moved, still, slow) + (untold or ""))


def _progress(dump: RankDump) -> object:
    """What changes when a rank issues or finishes anything; a dump taken again of a standstill has the same."""
    newest = dump.ops[-1].record if dump.ops else None
    open_ops = tuple((op.group, op.seq, op.p2p_seq) for op in dump.ops if not op.done)
    return (
        newest,
        open_ops,
        tuple(sorted((name, c.enqueued or -1, c.completed or -1) for name, c in dump.counters.items())),
    )


def _says(pace: Pace, moved: tuple[int, ...], still: tuple[int, ...], slow: "tuple[SlowRank, ...]") -> str:
    if pace is Pace.STUCK:
        return f"stuck: none of {len(still)} ranks issued or finished anything between the snapshots"
    if pace is Pace.PARTLY:
        return f"{len(moved)} ranks went on and {len(still)} did not: a third snapshot tells whether it comes to rest"
    if pace is Pace.SLOW:
        first = slow[0]
        return (
            f"slow: the others wait {first.waited_ms:.2f} ms for rank {first.rank} in each of {first.operations} "
            f"operations ({first.basis})"
        )
    if pace is Pace.RUNNING:
        return f"running: all {len(moved)} ranks went on and none is waited for more than the others"
    if pace is Pace.MOVING:
        return f"moving: all {len(moved)} ranks went on; whether the others wait for one cannot be told: "
    return "unknown: no rank has a dump in both snapshots"
