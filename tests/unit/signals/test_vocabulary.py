"""One vocabulary: rules, panels and exporter use the table's names, and every default query is PromQL."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from oncall.errors import ConfigError
from oncall.signals import grafana
from oncall.signals.panels import PANELS
from oncall.signals.signal import Matchers
from oncall.signals.vocabulary import SIGNALS, metric, queries

FIELDS_OF_THE_TRAINER = [
    "step",
    "loss",
    "grad_norm",
    "param_norm",
    "lr",
    "loss_scale",
    "skipped",
    "num_zeros_in_grad",
    "max_attn_logit",
    "consumed_samples",
    "step_time_s",
    "tps",
    "mfu",
    "data_wait_s",
    "mem_allocated_peak",
    "mem_reserved_peak",
    "mem_inactive_split",
    "num_alloc_retries",
    "num_device_alloc",
    "num_device_free",
]

SERIES = re.compile(r"\b(?:train_|DCGM_FI_|node_)\w+")
RECORDED = re.compile(r"\brun:\w+(?::\w+)*")
FORMER_NAMES = {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"}


def rule_expressions(rules: Path) -> list[str]:
    groups = yaml.safe_load(rules.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def recorded(rules: Path) -> set[str]:
    groups = yaml.safe_load(rules.read_text())["groups"]
    return {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}


def unknown_series(expression: str) -> set[str]:
    bare = re.sub(RECORDED, "", expression)
    return set(SERIES.findall(bare)) - {signal.metric for signal in SIGNALS.values()} - FORMER_NAMES


def assert_promql(expressions: list[str], folder: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    rules = [{"record": f"checked:{number}", "expr": expression} for number, expression in enumerate(expressions)]
    path = folder / "checked.yml"
    path.write_text(json.dumps({"groups": [{"name": "checked", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_field_of_the_trainer_is_a_metric_of_its_name() -> None:
    assert {name: metric(name) for name in FIELDS_OF_THE_TRAINER} == {
        name: f"train_{name}" for name in FIELDS_OF_THE_TRAINER
    }


def test_rules_and_their_texts_are_what_prometheus_takes(rules: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alertmanager_takes_the_example(rules: Path) -> None:
    if shutil.which("amtool") is None:
        pytest.skip("amtool is not installed")
    command = ["amtool", "check-config", str(rules.with_name("alertmanager.yml"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_names_alerts_that_exist(rules: Path) -> None:
    groups = yaml.safe_load(rules.read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    example = rules.with_name("alertmanager.yml").read_text()
    named = set("|".join(re.findall(r'alertname=~?"([^"]+)"', example)).split("|"))
    assert named <= alerts


def test_rules_use_the_vocabulary(rules: Path) -> None:
    expressions = rule_expressions(rules)
    assert set().union(*map(unknown_series, expressions)) == set()
    assert set(RECORDED.findall(" ".join(expressions))) <= recorded(rules)


def test_no_rule_joins_or_groups_by_job(rules: Path) -> None:
    """Prometheus sets `job` itself on each scrape, and renames what an exporter says to `exported_job`."""
    assert not [each for each in rule_expressions(rules) if re.search(r"\bjob\b", each)]


def test_panels_use_the_vocabulary(rules: Path) -> None:
    expressions = [query for panel in PANELS for query in panel.queries.values()]
    expressions += [query for query, _ in grafana.ANNOTATIONS.values()]
    assert set().union(*map(unknown_series, expressions)) == set()
    assert set(RECORDED.findall(" ".join(expressions))) <= recorded(rules)


@pytest.mark.parametrize("matchers", [Matchers(), Matchers('run="a"', 'Hostname=~"n.*"', 'instance=~"n.*"', "30m")])
def test_every_default_query_is_promql(tmp_path: Path, matchers: Matchers) -> None:
    assert_promql(list(queries(matchers, {}).values()), tmp_path)


def test_every_panel_is_promql(tmp_path: Path) -> None:
    shown = grafana.dashboard()["panels"]
    assert_promql([target["expr"] for panel in shown for target in panel.get("targets", ())], tmp_path)


def test_dashboard_and_its_description_are_those_of_the_table(rules: Path) -> None:
    assert json.loads(rules.with_name("dashboard.json").read_text()) == grafana.dashboard()
    assert rules.with_name("panels.md").read_text() == grafana.markdown()


def test_panels_lie_side_by_side() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in grafana.dashboard()["panels"]:
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]
    assert max(x for x, _ in taken) == 23


def test_overrides_replace_single_queries() -> None:
    found = queries(Matchers(train='run="run42"'), {"loss": "my_loss{$train}", "mfu": "my_mfu * 100"})
    assert found["loss"] == 'my_loss{run="run42"}'
    assert found["mfu"] == "my_mfu * 100"
    assert found["step"] == 'train_step{run="run42"}'


def test_every_wrong_override_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        queries(Matchers(), {"los": "x", "loss": "my_loss{$job}", "mfu": "my_mfu{$}"})
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        "signals.los",
        "signals.loss",
        "signals.mfu",
    ]
