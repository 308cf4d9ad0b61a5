"""The probe of the kernel log, run as a script: the ring, and what ties its clock to the time of day."""

import shutil
import subprocess
from pathlib import Path

import pytest

from oncall.run.model import Run

from .asking import ask

LINE = "[    1.000000] NVRM: Xid (PCI:0000:4f:00): 79, GPU has fallen off the bus."
ENTRY = '{"__REALTIME_TIMESTAMP":"1772506800000000","_SOURCE_MONOTONIC_TIMESTAMP":"1000000"}'
NO_TIME = '[ "$1" = 0.1 ] || exec /bin/sleep "$1"'
"""Short waits take no time."""
OPTIONS = "-k --no-pager -n 200 -o json --output-fields=_SOURCE_MONOTONIC_TIMESTAMP"


def tools(folder: Path, **scripts: str) -> Path:
    folder.mkdir()
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_ring_comes_with_the_journals_anchors(tmp_path: Path) -> None:
    journal = f"""[ "$*" = "{OPTIONS}" ] && echo '{ENTRY}'"""
    parts = ask(
        "kernel", Run(nodes="node001"), path=tools(tmp_path / "bin", dmesg=f"echo '{LINE}'", journalctl=journal)
    )
    assert parts["kernel"][0].text.strip() == LINE
    assert parts["anchors"][0].text.strip() == ENTRY


def test_a_journal_that_may_not_be_read_costs_no_ring(tmp_path: Path) -> None:
    own = tools(tmp_path / "bin", dmesg=f"echo '{LINE}'", journalctl="echo 'No journal files' >&2; exit 1")
    parts = ask("kernel", Run(nodes="node001"), path=own)
    assert parts["kernel"][0].text.strip() == LINE
    assert parts["anchors"][0].text.strip() == ""


def test_a_journal_that_never_answers_holds_up_nothing(tmp_path: Path) -> None:
    """`timeout` waits for what it cannot kill: one that waits uninterruptibly for a disk."""
    over = tmp_path / "over"
    waits = f"while [ ! -e {over} ]; do /bin/sleep 0.05; done"
    deaf = f'case "$*" in *journalctl*) {waits}; exit 1 ;; esac; shift 3; exec "$@"'
    own = tools(tmp_path / "bin", dmesg=f"echo '{LINE}'", journalctl=waits, timeout=deaf, sleep=NO_TIME)
    parts = ask("kernel", Run(nodes="node001"), path=own)
    over.touch()
    assert parts["kernel"][0].text.strip() == LINE
    assert "anchors" not in parts


def test_where_there_is_no_ring_the_journal_speaks_for_itself(tmp_path: Path) -> None:
    stamped = f"2026-03-03T02:59:00.000000+00:00 node001 kernel: {LINE}"
    own = tools(tmp_path / "bin", dmesg="echo denied >&2; exit 1", journalctl=f"echo '{stamped}'")
    parts = ask("kernel", Run(nodes="node001"), path=own)
    assert (parts["kernel"][0].attributes["form"], "anchors" in parts) == ("journal", False)


def test_journalctl_knows_these_options() -> None:
    if shutil.which("journalctl") is None:
        pytest.skip("no journalctl")
    asked = subprocess.run(["journalctl", *OPTIONS.split()], capture_output=True, text=True, check=False, timeout=30)
    assert "option" not in asked.stderr
