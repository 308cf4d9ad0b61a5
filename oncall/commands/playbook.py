"""List, show, check and try playbooks, and write the on-call manual that they are.

`list` names those there are; `show NAME` prints one as a tree; `lint FILE` says what is wrong with one, by file and
line; `test NAME BUNDLE…` walks one on recorded incidents; `runbook` writes the manual, filled in for a run. A site's
own playbooks lie in its configuration folder (`list` says where); one there may hold `extends: NAME` and only the
steps and conclusions that differ. Exit code: 0 well, 2 mistakes in a playbook or a file that cannot be read, 10 `test`
came to another conclusion than the one recorded.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from oncall.errors import ConfigError, OncallError

SCHEMA = "oncall.playbook/1"
DIFFERS = 10
MISTAKES = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands of `oncall playbook`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|lint|test|runbook")
    listing = actions.add_parser("list", help="name the playbooks and the alerts that call for them")
    listing.add_argument("--json", action="store_true", help=f"as JSON ({SCHEMA})")
    show = actions.add_parser("show", help="print one as a tree")
    show.add_argument("name", metavar="NAME|FILE", help="a playbook that `list` names, or a file")
    lint = actions.add_parser("lint", help="say what is wrong with playbooks, by file and line")
    lint.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a playbook of your own")
    test = actions.add_parser("test", help="walk one on recorded incidents")
    test.add_argument("name", metavar="NAME|FILE", help="a playbook that `list` names, or a file")
    test.add_argument("bundles", nargs="+", type=Path, metavar="BUNDLE", help="the folder that a triage wrote")
    test.add_argument("--json", action="store_true", help=f"as JSON ({SCHEMA})")
    manual = actions.add_parser("runbook", help="write the on-call manual, as Markdown")
    manual.add_argument("names", nargs="*", metavar="NAME", help="which playbooks (default: all)")
    manual.add_argument("--run", metavar="RUN", help="fill in what this run file says")
    manual.add_argument("--html", action="store_true", help="one HTML page instead")


def run(args: argparse.Namespace) -> int:
    """Do what was asked; the answer goes to stdout."""
    actions = {"list": _list, "show": _show, "lint": _lint, "test": _test, "runbook": _runbook}
    return actions[args.action](args)


def _list(args: argparse.Namespace) -> int:
    # Imported in the actions to keep `oncall --help` quick.
    from oncall.neutral import neutral
    from oncall.playbook.loader import known, load, own_folder

    rows = []
    for name, source in known().items():
        try:
            playbook = load(name)
            rows.append({"name": name, "title": playbook.title, "alert": playbook.alert or None, "from": source})
        except OncallError as error:
            rows.append({"name": name, "title": None, "alert": None, "from": source})
            sys.stderr.writelines(f"oncall: {neutral(problem)}\n" for problem in error.cause.split("\n"))
    if args.json:
        answer = {"schema": SCHEMA, "own_folder": str(own_folder()), "playbooks": rows}
        sys.stdout.write(json.dumps(answer, indent=1) + "\n")
        return 0
    sys.stdout.write(f"{'NAME':<18} {'ALERT':<24} TITLE\n")
    for row in rows:
        title = row["title"] or "has mistakes; `oncall playbook lint` names them"
        own = "" if row["from"] == "shipped" else f"  (yours: {row['from']})"
        sys.stdout.write(neutral(f"{row['name']:<18} {row['alert'] or '':<24} {title}{own}") + "\n")
    sys.stdout.write(f"\nOne of your own goes to {own_folder()}/NAME.yaml\n")
    return 0


def _show(args: argparse.Namespace) -> int:
    from oncall.neutral import neutral
    from oncall.playbook.loader import load
    from oncall.playbook.tree import tree_lines

    for line in tree_lines(load(args.name)):
        sys.stdout.write(neutral(line) + "\n")
    return 0


def _lint(args: argparse.Namespace) -> int:
    from oncall.neutral import neutral
    from oncall.playbook.lint import notes
    from oncall.playbook.loader import load_file

    code = 0
    for path in args.files:
        try:
            playbook = load_file(path)
        except ConfigError as error:
            code = MISTAKES
            sys.stdout.write("".join(neutral(problem) + "\n" for problem in error.problems))
            continue
        except OncallError as error:
            code = MISTAKES
            sys.stderr.write(f"oncall: {neutral(error.cause)}\n")
            continue
        told = f"{path}: {len(playbook.steps)} steps, {len(playbook.conclusions)} conclusions, no mistake"
        for line in (told, *(f"{path}: {note}" for note in notes(playbook))):
            sys.stdout.write(neutral(line) + "\n")
    return code


def _test(args: argparse.Namespace) -> int:
    rows = list(_walks(args.name, args.bundles))
    if args.json:
        sys.stdout.write(json.dumps({"schema": SCHEMA, "walks": rows}, indent=1) + "\n")
    else:
        for row in rows:
            recorded = row["recorded"]
            same = "" if recorded is None else "  as recorded" if row["same"] else f"  recorded: {recorded}"
            sys.stdout.write(f"{row['bundle']}: {row['conclusion']}{same}\n")
            sys.stdout.write(f"  {row['path']}\n")
    if len(rows) < len(args.bundles):
        return MISTAKES
    return DIFFERS if any(row["same"] is False for row in rows) else 0


def _walks(name: str, bundles: list[Path]) -> Iterator[dict[str, str | bool | None]]:
    from oncall.bundle.store import Bundle
    from oncall.neutral import neutral
    from oncall.playbook.engine import walk
    from oncall.playbook.events import Concluded
    from oncall.playbook.journal import read_journal, standing_of
    from oncall.playbook.loader import load
    from oncall.playbook.sources import RecordedSource
    from oncall.report.triage import case_of

    playbook = load(name)
    for path in bundles:
        try:
            bundle = Bundle.open(path)
        except OncallError as error:
            sys.stderr.write(f"oncall: {neutral(error.cause)}\n")
            continue
        walked = asyncio.run(walk(playbook, RecordedSource(bundle), case_of(bundle), lambda _event: None))
        events = read_journal(bundle)
        ends = [event.conclusion for event in events if isinstance(event, Concluded)]
        walked_then = standing_of(events).playbook or bundle.manifest.playbook
        recorded = ends[-1] if ends and walked_then == playbook.playbook else None
        yield {
            "bundle": neutral(str(path)),
            "conclusion": walked.conclusion_id,
            "recorded": None if recorded is None else neutral(recorded),
            "same": None if recorded is None else recorded == walked.conclusion_id,
            "path": " → ".join(f"{step.step}: {step.verdict}" for step in walked.steps),
        }


def _runbook(args: argparse.Namespace) -> int:
    from oncall.playbook.loader import known, load
    from oncall.playbook.runbook import runbook
    from oncall.playbook.runbook_pages import as_html, as_markdown
    from oncall.run.file import find
    from oncall.run.file import load as load_run
    from oncall.run.model import Run

    described = load_run(find(args.run)) if args.run else Run(nodes="NODES", name="RUN")
    blocks = runbook(described, [load(name) for name in args.names or known()])
    if args.run is None:
        sys.stderr.write("oncall: RUN and NODES stand in it for a run; `--run RUN` fills in what its run file says\n")
    sys.stdout.write(as_html(blocks) if args.html else as_markdown(blocks))
    return 0
