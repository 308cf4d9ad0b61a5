"""The triage report as JSON."""

import msgspec

from oncall.report.model import Report


def as_json(report: Report) -> str:
    """The whole report, indented, ending in a newline."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"
