"""The one table of signals: exporter, alert rules, dashboard, and slowdown readings take every name from here."""

from collections.abc import Mapping
from types import MappingProxyType

from oncall.errors import ConfigError
from oncall.signals.hardware_signals import DCGM_SIGNALS, NODE_SIGNALS
from oncall.signals.signal import Matchers, Signal, render
from oncall.signals.trainer_signals import OBSERVED, TRAINER_FIELDS

SIGNALS: Mapping[str, Signal] = MappingProxyType(
    {signal.name: signal for signal in (*TRAINER_FIELDS, *OBSERVED, *DCGM_SIGNALS, *NODE_SIGNALS)}
)
"""Signal name → signal."""


def metric(name: str) -> str:
    """The series of a signal; raises KeyError for a name that is not in the vocabulary."""
    return SIGNALS[name].metric


def queries(matchers: Matchers, overrides: Mapping[str, str]) -> dict[str, str]:
    """Signal name → PromQL for one run, in the order of the table.

    `overrides` replaces single queries, as written in a run file; they may use the same open places as the defaults.
    Raises ConfigError that lists every override of an unknown signal or with an unknown place.
    """
    problems = [f"signals.{name}: there is no such signal" for name in overrides if name not in SIGNALS]
    found: dict[str, str] = {}
    for name, signal in SIGNALS.items():
        try:
            found[name] = render(overrides.get(name, signal.query), matchers)
        except (KeyError, ValueError) as error:
            problems.append(f"signals.{name}: {_wrong_place(error)}")
    if problems:
        raise ConfigError(problems, "open places are $train, $dcgm, $node and $window; write $$ for a dollar sign")
    return found


def _wrong_place(error: KeyError | ValueError) -> str:
    return f"${error.args[0]} is no open place" if isinstance(error, KeyError) else "a $ that names nothing"
