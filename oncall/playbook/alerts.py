"""The shipped alert rules, by the name that a playbook gives as its alert."""

from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alert: its PromQL expression on one line, and whether it pages."""

    name: str
    expression: str
    severity: str


def rule_of(name: str) -> AlertRule | None:
    """The shipped rule of this name, None where there is none."""
    return _rules().get(name)


def alert_names() -> tuple[str, ...]:
    """The names of the shipped rules, in their order."""
    return tuple(_rules())


def place_of(name: str) -> int:
    """Where the rule of this name stands among the shipped ones; behind all of them where there is none."""
    names = list(_rules())
    return names.index(name) if name in names else len(names)


@cache
def _rules() -> dict[str, AlertRule]:
    text = resources.files("oncall.signals").joinpath("alerts.yml").read_text(encoding="utf-8")
    rules = (rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"] if "alert" in rule)
    return {
        rule["alert"]: AlertRule(rule["alert"], " ".join(rule["expr"].split()), rule["labels"]["severity"])
        for rule in rules
    }
