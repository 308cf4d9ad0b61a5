"""Where a run's metrics and alerts are: addresses, secrets by name only, durations, moments."""

from datetime import UTC, datetime, timedelta

import pytest

from oncall.errors import ConfigError
from oncall.run.file import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[prometheus]\nurl = "https://me:secret@host"\n', "prometheus.url: holds a password; name a variable or file"),
        ('[alertmanager]\nurl = "host:9093"\n', "alertmanager.url: is no http or https address"),
        ('[prometheus]\nurl = "file:///etc/passwd"\n', "prometheus.url: is no http or https address"),
        ('[prometheus]\npassword = "secret"\n', "prometheus.password: unknown key; did you mean `password_"),
        ('[prometheus]\nwindow = "10 minutes"\n', "prometheus.window: expected a duration such as 10m or 1h30m"),
        ("[prometheus]\nbaseline = 7\n", "prometheus.baseline: Expected `datetime"),
        ("[prometheus]\nbaseline = 2026-03-01T10:00:00\n", "prometheus.baseline: Expected `datetime` with a timezone"),
        ("[prometheus]\ntrain = 'run=42'\n", "prometheus.train: expected label matchers such as run="),
        ('[alertmanager]\nmatch = ["cluster"]\n', "alertmanager.match.0: expected a matcher such as cluster="),
        ('[prometheus]\nurl = "http://host:99999"\n', "prometheus.url: Port out of range"),
        ('[prometheus]\nurl = "http://a host"\n', "prometheus.url: is no http or https address"),
        ('[prometheus]\ntenant = "a\\nb"\n', "prometheus.tenant: expected one line of text"),
        ("[prometheus]\ntimeout_s = inf\n", "prometheus.timeout_s: Expected `float` <= 31536000"),
        ('[prometheus.join]\nhosts = ["node"]\n', "prometheus.join.hosts: unknown key; did you mean `host`?"),
        ("[thresholds]\nslow_factor = 0.9\n", "thresholds.slow_factor: Expected `float` > 1"),
    ],
)
def test_each_mistake_is_named_with_its_line(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse('nodes = "n1"\n' + text, "run42.toml", default_name="run42")
    (problem,) = caught.value.problems
    assert problem.startswith(f"run42.toml:3: {expected}")


def test_a_recorded_stretch_is_a_moment() -> None:
    text = 'nodes = "n1"\n[prometheus]\nbaseline = 2026-03-01T10:00:00+01:00\n'
    told = parse(text, "run42.toml", default_name="run42").prometheus.baseline
    assert told == datetime(2026, 3, 1, 9, tzinfo=UTC)
    assert told.utcoffset() == timedelta(hours=1)
