"""What can a signal's value be at all? What lies beyond was not measured: a blank of the driver, a broken exporter."""

from collections.abc import Mapping

from oncall.signals.vocabulary import SIGNALS

_DAY_S = 86400.0
"""Longer than any step or save takes; a day's step would show no progress to anybody."""
_AHEAD_S = 60.0
"""A clock that is further ahead is wrong: nothing ends in the future."""

_YEAR_2001_S = 1e9
"""An earlier time was stamped by a clock that was not set."""

_BOUNDS: Mapping[str, tuple[float, float]] = {
    "sm_clock": (1.0, 1e4),
    "gpu_temp": (0.0, 200.0),
    "memory_temp": (0.0, 200.0),
    "power": (0.0, 1e4),
    "clocks_event_reasons": (0.0, 2.0**32),
    "xid": (0.0, 1e4),
    "ib_state": (0.0, 7.0),
    "ib_rate": (1.0, 1e13),
    "mfu": (0.0, 1e3),
    "step_time_s": (0.0, _DAY_S),
    "step_time_s_p50": (0.0, _DAY_S),
    "comm_wait_s": (0.0, _DAY_S),
    "data_wait_s": (0.0, _DAY_S),
    "span_seconds": (0.0, _DAY_S),
    "ckpt_duration_s": (0.0, _DAY_S),
}
"""The least and the greatest value that hardware or a job can have, with room to spare; both count as possible.

DCGM gives blanks of 2^31 - 16 and more, or 2^63 - 16 and more, for what a GPU does not tell (dcgm_structs.h).
"""
_ANY = (0.0, 1e18)
"""No signal of the vocabulary that is asked for is ever negative."""


def plausible(signal: str, asked_at: float) -> tuple[float, float]:
    """The least and the greatest value that a signal can have; `asked_at` in unix seconds. NaN lies outside of any."""
    if SIGNALS[signal].unit == "unix s":
        return _YEAR_2001_S, asked_at + _AHEAD_S
    return _BOUNDS.get(signal, _ANY)


def shown(signal: str, value: float) -> str:
    """`1e+12 MHz`, as an exporter told it."""
    return f"{value:.6g} {SIGNALS[signal].unit}"
