"""When was the run last as fast as it can be? The stretch that now is compared with."""

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime

from oncall.bundle.evidence import Evidence
from oncall.readings.metric_set import metric_set
from oncall.run.model import Run

HISTORY = "step_time_history"
"""The item of the `metrics` probe that holds the run's median step time over the look-back."""

_STRETCH = 3
_SPREAD = 0.1
_SUSTAINED = 0.1
_AT_LEVEL = 1.05

Point = tuple[float, float]


def history(evidence: Evidence) -> tuple[Point, ...]:
    """(unix seconds, median step time in s) over the look-back, oldest first."""
    answer = metric_set(evidence).get(HISTORY)
    found = answer.parts.get("history") if answer else None
    return found.curves[0].points if found and found.curves else ()


def good_stretch(points: Sequence[Point], now: float, quiet_s: float) -> float | None:
    """The end, in unix seconds, of the last stable stretch at the level that the run has sustained; None without one.

    Sustained is what a tenth of the points is at or below; stable is a spread within 10 % over three points. The
    last `quiet_s` seconds are what is being judged, and no stretch reaches into them.
    """
    past = [(at, value) for at, value in points if at <= now - quiet_s and value > 0]
    if len(past) < _STRETCH:
        return None
    level = sorted(value for _, value in past)[int(_SUSTAINED * (len(past) - 1))]
    for end in range(len(past), _STRETCH - 1, -1):
        stretch = [value for _, value in past[end - _STRETCH : end]]
        middle = statistics.median(stretch)
        if max(stretch) - min(stretch) <= _SPREAD * middle and middle <= _AT_LEVEL * level:
            return past[end - 1][0]
    return None


def baseline_end(evidence: Evidence, run: Run, now: datetime, quiet_s: float) -> datetime | None:
    """The end of the stretch to compare with: the run file's own, else the last good one of the look-back."""
    if run.prometheus.baseline is not None:
        told = run.prometheus.baseline
        return told if told.tzinfo else told.replace(tzinfo=UTC)
    end = good_stretch(history(evidence), now.timestamp(), quiet_s)
    return None if end is None else datetime.fromtimestamp(end, UTC)
