"""Print the JSON Schema of an answer or of a file, for scripts and editors."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from oncall.playbook.schema import playbook_schema
from oncall.report.model import Report
from oncall.run.model import Run

_SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "triage": lambda: msgspec.json.schema(Report),
    "run": lambda: msgspec.json.schema(Run),
    "playbook": playbook_schema,
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `oncall schema`."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=sorted(_SCHEMAS),
        default="triage",
        help="triage: the answer of --json; run: a run file; playbook: a playbook or an extension (default: triage)",
    )


def run(args: argparse.Namespace) -> int:
    """Print one schema."""
    sys.stdout.write(json.dumps(_SCHEMAS[args.what](), indent=1) + "\n")
    return 0
