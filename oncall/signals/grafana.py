"""Write the Grafana dashboard and its description from the one list of panels.

`python -m oncall.signals.grafana` prints the dashboard, with `--markdown` its description; `--host-label hostname` is
for dcgm-exporter since May 2026. Schema: Grafana 11 (schemaVersion 39), importable from 9 on.
"""

import argparse
import json
import sys
from typing import Any

from oncall.signals.panels import PANELS, Panel, Row, Shape
from oncall.signals.signal import Matchers, render

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 8, 7
_PER_LINE = 24 // _WIDTH

ANNOTATIONS: dict[str, tuple[str, str]] = {
    "Alerts": ('ALERTS{alertstate="firing",severity="page",$train}', "red"),
    "Restarts": ("changes(train_restart_total{$train}[1m]) > 0", "orange"),
    "Checkpoints": ("max by (run) (changes(train_ckpt_duration_s{$train}[1m])) > 0", "blue"),
}
"""What is drawn over every panel: name → query and colour."""


def dashboard(host_label: str = "Hostname") -> dict[str, Any]:
    """The dashboard as Grafana imports it; `host_label` names the host in dcgm-exporter's series."""
    matchers = Matchers(train='run=~"$run"', dcgm=f'{host_label}=~"$host"')
    panels: list[dict[str, Any]] = []
    top = 0
    for row in Row:
        panels.append(_row(row, len(panels) + 1, top))
        own = [panel for panel in PANELS if panel.row is row]
        for index, panel in enumerate(own):
            place = {"x": index % _PER_LINE * _WIDTH, "y": top + 1 + index // _PER_LINE * _HEIGHT}
            panels.append(_panel(panel, len(panels) + 1, place, matchers))
        top += 1 + -(-len(own) // _PER_LINE) * _HEIGHT
    return {
        "uid": "oncall-run",
        "title": "Training run",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": _variables(host_label)},
        "annotations": {"list": [_annotation(name, *what, matchers) for name, what in ANNOTATIONS.items()]},
        "panels": panels,
    }


def markdown() -> str:
    """The panels as a document: query, unit and threshold of each, row by row."""
    lines = ["# Panels", "", "Written by `python -m oncall.signals.grafana --markdown`; `$run` and `$host` select.", ""]
    matchers = Matchers(train='run=~"$run"', dcgm='Hostname=~"$host"')
    for row in Row:
        lines += [f"## {row}", "", "| panel | query | unit | limits |", "|---|---|---|---|"]
        for panel in (panel for panel in PANELS if panel.row is row):
            queries = "<br>".join(f"`{render(query, matchers)}`" for query in panel.queries.values())
            lines.append(f"| {panel.title} | {queries} | {panel.unit} | {_limits(panel)} |")
        lines.append("")
    over = [f"`{render(query, matchers)}` ({name.lower()})" for name, (query, _) in ANNOTATIONS.items()]
    return "\n".join([*lines, "Drawn over every panel: " + ", ".join(over) + ".", ""])


def _limits(panel: Panel) -> str:
    if not panel.thresholds:
        return ""
    word = "below" if panel.below else "from"
    colours = ("red", "yellow") if panel.below else ("yellow", "red")
    told = zip(colours if len(panel.thresholds) == 2 else ("red",), panel.thresholds, strict=True)
    return ", ".join(f"{colour} {word} {value:g}" for colour, value in told)


def _row(row: Row, number: int, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": 24, "h": 1}
    return {"id": number, "type": "row", "title": row.value, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, number: int, place: dict[str, int], matchers: Matchers) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": render(query, matchers),
            "legendFormat": legend,
            "instant": panel.shape is Shape.TABLE,
            "range": panel.shape is not Shape.TABLE,
            "format": "table" if panel.shape is Shape.TABLE else "time_series",
        }
        for index, (legend, query) in enumerate(panel.queries.items())
    ]
    return {
        "id": number,
        "type": panel.shape.value,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {**place, "w": _WIDTH, "h": _HEIGHT},
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "thresholds": _thresholds(panel)}, "overrides": []},
        "options": {},
    }


def _thresholds(panel: Panel) -> dict[str, Any]:
    base, beyond = ("red", "green") if panel.below else ("green", "red")
    steps: list[dict[str, Any]] = [{"color": base, "value": None}]
    if panel.thresholds:
        steps += [{"color": "yellow", "value": value} for value in panel.thresholds[:-1]]
        steps.append({"color": beyond, "value": panel.thresholds[-1]})
    return {"mode": "absolute", "steps": steps}


def _variables(host_label: str) -> list[dict[str, Any]]:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    run = _values("run", "label_values(train_step, run)", multi=False)
    return [source, run, _values("host", f"label_values(DCGM_FI_DEV_SM_CLOCK, {host_label})", multi=True)]


def _values(name: str, query: str, *, multi: bool) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": multi,
        "includeAll": multi,
        "allValue": ".*" if multi else None,
    }


def _annotation(name: str, query: str, colour: str, matchers: Matchers) -> dict[str, Any]:
    return {
        "name": name,
        "datasource": _SOURCE,
        "enable": True,
        "iconColor": colour,
        "expr": render(query, matchers),
        "step": "30s",
        "titleFormat": "{{alertname}}" if name == "Alerts" else name,
    }


def main() -> int:
    """Print one of the two documents."""
    parser = argparse.ArgumentParser(prog="python -m oncall.signals.grafana", description=__doc__, allow_abbrev=False)
    parser.add_argument("--markdown", action="store_true", help="print the description instead of the dashboard")
    parser.add_argument("--host-label", default="Hostname", metavar="LABEL", help="dcgm-exporter's label of the host")
    args = parser.parse_args()
    text = markdown() if args.markdown else json.dumps(dashboard(args.host_label), indent=1) + "\n"
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
