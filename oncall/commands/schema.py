"""Print the JSON Schema of an answer or of a file, for scripts and editors."""

import argparse
import json
import sys
from typing import Any

import msgspec

from oncall.playbook.model import Playbook
from oncall.report.model import Report
from oncall.run.model import Run

_MODELS: dict[str, type[msgspec.Struct]] = {"triage": Report, "run": Run, "playbook": Playbook}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `oncall schema`."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=sorted(_MODELS),
        default="triage",
        help="triage: the answer of --json; run: a run file; playbook: a playbook (default: triage)",
    )


def run(args: argparse.Namespace) -> int:
    """Print one schema."""
    schema: dict[str, Any] = msgspec.json.schema(_MODELS[args.what])
    sys.stdout.write(json.dumps(schema, indent=1) + "\n")
    return 0
