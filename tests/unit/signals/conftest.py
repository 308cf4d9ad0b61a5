"""Evaluates the shipped alert rules over made-up histories with promtool, as Prometheus would."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import pytest

from oncall.signals import vocabulary

RULES = Path(vocabulary.__file__).with_name("alerts.yml")

Labels: TypeAlias = Mapping[str, str]


class Check(Protocol):
    """The fixture `check_firing`."""

    def __call__(
        self, alert: str, history: Mapping[str, str], minute: float, expected: Sequence[Labels], interval: int = 30
    ) -> None: ...


def _selector(name: str, labels: Labels) -> str:
    return name + "{" + ",".join(f"{key}={json.dumps(value)}" for key, value in sorted(labels.items())) + "}"


@pytest.fixture
def rules() -> Path:
    """The shipped rules."""
    return RULES


@pytest.fixture
def check_firing(tmp_path: Path) -> Check:
    """Asserts which alerts of a name fire at a minute of a history with a sample every `interval` s, from epoch 0.

    `expected` holds the labels of each, without alertname and severity.
    """
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")

    def check(
        alert: str, history: Mapping[str, str], minute: float, expected: Sequence[Labels], interval: int = 30
    ) -> None:
        severity = _severity(alert)
        firing = {"alertname": alert, "alertstate": "firing"}
        case = {
            "rule_files": [str(RULES)],
            "evaluation_interval": f"{interval}s",
            "tests": [
                {
                    "interval": f"{interval}s",
                    "input_series": [{"series": name, "values": values} for name, values in history.items()],
                    "promql_expr_test": [
                        {
                            "expr": _selector("ALERTS", firing),
                            "eval_time": f"{round(minute * 60)}s",
                            "exp_samples": [
                                {"labels": _selector("ALERTS", {**firing, "severity": severity, **labels}), "value": 1}
                                for labels in expected
                            ],
                        }
                    ],
                }
            ],
        }
        path = tmp_path / "case.yml"
        path.write_text(json.dumps(case))
        done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return check


def _severity(alert: str) -> str:
    _, found, after = RULES.read_text().partition(f"- alert: {alert}\n")
    assert found, f"no rule {alert}"
    return after.partition("severity: ")[2].partition("}")[0]
