"""Puts a report on stdout."""

import sys

from oncall.report.json_report import as_json
from oncall.report.model import Report
from oncall.report.text import as_text


def print_report(report: Report, *, as_json_text: bool) -> int:
    """Print a report as text or JSON; returns the exit code that goes with it."""
    sys.stdout.write(as_json(report) if as_json_text else as_text(report))
    return report.exit_code
