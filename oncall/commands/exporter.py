"""Show a run's step records, spans and logs on this node to Prometheus: one exporter a node, beside the trainer.

It reads, and only reads, what the run writes under the given folders: one JSON object a step and rank (*.jsonl),
torchtitan's structured logs, and the stdout.log and stderr.log of torchrun's --log-dir, whose folder must be this
node's own. Metrics are named train_FIELD, with the labels run and rank.
"""

import argparse
import sys

from oncall.errors import UsageError

DEFAULT_PORT = 9410
"""Not 9400, which is dcgm-exporter's."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `oncall exporter`."""
    parser.add_argument(
        "folders", nargs="+", metavar="DIR", help="folder with the run's files, or below which they lie"
    )
    parser.add_argument("--run", required=True, metavar="NAME", dest="run_name", help="value of the label run")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, metavar="N", help="port to answer on (%(default)s)")
    parser.add_argument("--address", default="0.0.0.0", metavar="IP", help="address to answer on (%(default)s)")  # noqa: S104
    parser.add_argument(
        "--first-rank",
        type=int,
        metavar="N",
        help="global rank of this node's local rank 0; torchrun's folders name local ranks only",
    )
    parser.add_argument(
        "--interval", type=float, default=1.0, metavar="S", help="seconds between two looks at the files (%(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM, then return 0."""
    if not 0.05 <= args.interval <= 60:
        raise UsageError("--interval must be between 0.05 and 60 seconds")
    if not 0 <= args.port <= 65535:
        raise UsageError("--port must be between 0 and 65535", "0 takes a free one, which is told on stderr")
    if not args.run_name.strip():
        raise UsageError("--run must not be empty", "it is the label by which the series of this run are found")
    if args.first_rank is not None and args.first_rank < 0:
        raise UsageError("--first-rank must not be negative")
    from oncall.signals.exporter import Exporter
    from oncall.signals.serve import serve

    exporter = Exporter(args.run_name, args.folders, args.first_rank)
    serve(exporter, args.address, args.port, args.interval, sys.stderr)
    return 0
