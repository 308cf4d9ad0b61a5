"""Write a run file with every key explained, to be filled in."""

import argparse
import sys
from importlib import resources
from pathlib import Path

from oncall.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `oncall init`."""
    parser.add_argument("run", metavar="RUN", help="name of the run; the file is RUN.toml in this folder")


def run(args: argparse.Namespace) -> int:
    """Write RUN.toml; a file that is there already is left alone."""
    path = Path(args.run if args.run.endswith(".toml") else f"{args.run}.toml")
    text = resources.files("oncall.run").joinpath("template.toml").read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already", "edit it, or give another name") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    sys.stdout.write(
        f"wrote {path}: fill in `nodes` and `paths`, then `oncall ranks {path.stem}` shows what it finds\n"
    )
    return 0
