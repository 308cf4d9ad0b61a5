"""PromQL's durations: `90s`, `10m`, `1h30m`."""

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_TERM = re.compile(r"(\d+)(ms|[smhdwy])")


def seconds_of(duration: str) -> float:
    """A duration in seconds; ValueError where it is none."""
    terms = _TERM.findall(duration)
    if not terms or "".join(number + unit for number, unit in terms) != duration:
        raise ValueError(f"{duration!r} is no PromQL duration")
    return sum(int(number) * _UNITS[unit] for number, unit in terms)
