"""Write a run file with every key explained, to be filled in: RUN.toml in this folder.

Only `nodes` must be filled in, in folded notation as Slurm prints it: `scontrol show job ID` (NodeList), or
`echo $SLURM_JOB_NODELIST`. A host file becomes one with `nodeset -f <HOSTFILE`, or with commas between its names.
"""

import argparse
import pkgutil
import sys
from importlib import resources
from pathlib import Path

from oncall import commands
from oncall.errors import UsageError
from oncall.run.file import parse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `oncall init`."""
    parser.add_argument("run", metavar="RUN", help="name of the run; the file is RUN.toml in this folder")


def run(args: argparse.Namespace) -> int:
    """Write RUN.toml; a file that is there already is left alone."""
    path = Path(args.run if args.run.endswith(".toml") else f"{args.run}.toml")
    if path.stem in {module.name for module in pkgutil.iter_modules(commands.__path__)}:
        raise UsageError(f"{path.stem} is a command of oncall", "give the run another name")
    text = resources.files("oncall.run").joinpath("template.toml").read_text(encoding="utf-8")
    parse(text, str(path), default_name=path.stem if args.run else "")
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already", "edit it, or give another name") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "the folder must be there, and yours to write to") from error
    sys.stdout.write(
        f"wrote {path}: fill in `nodes` and `paths`, then `oncall ranks {path.stem}` shows what it finds\n"
    )
    return 0
