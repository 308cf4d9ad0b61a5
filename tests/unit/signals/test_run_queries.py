"""The PromQL of a run, and what its expressions read."""

import pytest

from oncall.errors import ConfigError
from oncall.run.file import parse
from oncall.signals.duration import seconds_of
from oncall.signals.run_queries import checked_queries, run_queries
from oncall.signals.selectors import newest_query, selectors
from oncall.signals.vocabulary import SIGNALS


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("up", ("up",)),
        ('train_mfu{run="a"}', ('train_mfu{run="a"}',)),
        ('increase(x_total{run="a"}[10m])', ('x_total{run="a"}',)),
        ("max without (err_code, err_msg) (DCGM_FI_DEV_XID_ERRORS{})", ("DCGM_FI_DEV_XID_ERRORS{}",)),
        ("a{} or b{}", ("a{}", "b{}")),
        ("a{} / a{}", ("a{}",)),
        ('label_replace(a{h="}"}, "x{}", "$1", "y", "(.*)")', ('a{h="}"}',)),
        ("job:thing:rate5m{run='it''s'}", ("job:thing:rate5m{run='it''s'}",)),
        ("vector(1)", ()),
    ],
)
def test_the_series_that_an_expression_reads(query: str, expected: tuple[str, ...]) -> None:
    assert selectors(query) == expected


def test_the_age_of_all_series_of_an_expression_is_asked_for() -> None:
    assert newest_query("a{} or b{}") == "timestamp(a{}) or timestamp(b{})"
    assert newest_query("vector(1)") is None


def test_every_default_query_tells_what_it_reads() -> None:
    queries = run_queries(parse('nodes = "n1"\n', "run42.toml", default_name="run42"))
    for name, query in queries.items():
        assert any(each.startswith(SIGNALS[name].metric) for each in selectors(query)), name


def test_matchers_and_single_queries_come_from_the_run_file() -> None:
    text = (
        'nodes = "n1"\n[prometheus]\ntrain = \'job="x"\'\ndcgm = \'cluster="a"\'\nwindow = "1h"\n'
        "[signals]\npower = 'watts{$dcgm}'\nib_rate = ''\n"
    )
    queries = run_queries(parse(text, "run42.toml", default_name="run42"))
    assert queries["step"] == 'train_step{job="x"}'
    assert queries["power"] == 'watts{cluster="a"}'
    assert queries["ib_rate"] == ""
    assert queries["pcie_replay"] == 'increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{cluster="a"}[1h])'


def test_a_name_with_quotes_stays_one_matcher() -> None:
    queries = run_queries(parse('nodes = "n1"\n', "x.toml", default_name='a"} or vector(1) #'))
    assert queries["step"] == 'train_step{run="a\\"} or vector(1) #"}'


def test_every_mistake_is_named_with_the_run_file() -> None:
    text = "nodes = \"n1\"\n[signals]\nsm_clok = 'x'\npower = 'y{$gpu}'\n"
    with pytest.raises(ConfigError) as caught:
        checked_queries(parse(text, "run42.toml", default_name="run42"), "run42.toml")
    assert caught.value.problems == [
        "run42.toml: signals.sm_clok: there is no such signal",
        "run42.toml: signals.power: $gpu is no open place",
    ]


@pytest.mark.parametrize(("text", "expected"), [("90s", 90.0), ("10m", 600.0), ("1h30m", 5400.0), ("1w", 604800.0)])
def test_durations_of_promql(text: str, expected: float) -> None:
    assert seconds_of(text) == expected


@pytest.mark.parametrize("text", ["", "10", "m", "10x", "1h 30m", "-5m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="no PromQL duration"):
        seconds_of(text)
