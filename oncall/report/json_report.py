"""The triage report as JSON, and its schema."""

from typing import Any

import msgspec

from oncall.report.model import Report


def as_json(report: Report) -> str:
    """The whole report, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of `as_json`'s answer."""
    return msgspec.json.schema(Report)
