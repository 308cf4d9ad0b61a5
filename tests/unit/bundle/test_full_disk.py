"""A disk that takes no more costs what is kept, and not the answer."""

import resource
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncall.bundle.evidence import NodeAnswer, Outcome
from oncall.bundle.store import Bundle, Manifest

RUN = 'nodes = "here"\n[reach]\nvia = "local"\n[processes]\nmatch = "no-process-is-called-so [x]"\n'
MOST = 180
"""Bytes that a file may have: enough for the run file and the manifest, too little for the journal."""


def test_a_probe_whose_folder_cannot_be_made_says_so_of_each_node(tmp_path: Path) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    bundle = Bundle.create(Manifest(run="run42", started=now), RUN, tmp_path / "bundle")
    (bundle.path / "evidence").touch()
    folder = bundle.probe_folder("kernel", ["here"])
    with pytest.raises(OSError, match="Not a directory"):
        folder.open_answer("here").write(b"an answer")
    folder.record(NodeAnswer(host="here", outcome=Outcome.OK, started=now, took_s=1.0))
    assert folder.evidence().coverage.missing == {"here": "the bundle cannot be written: Not a directory"}


def test_an_answer_that_was_not_kept_is_none(tmp_path: Path) -> None:
    """What stands in the buffer of a file is lost at its end, when the node has long answered in full."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    bundle = Bundle.create(Manifest(run="run42", started=now), RUN, tmp_path / "bundle")
    folder = bundle.probe_folder("kernel", ["here"])
    output = folder.open_answer("here")
    output.write(b"an answer")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        file = folder.relative(output.close())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    folder.record(NodeAnswer(host="here", outcome=Outcome.OK, started=now, took_s=1.0, file=file))
    for evidence in (folder.evidence(), bundle.evidence("kernel")):
        assert evidence is not None
        assert evidence.coverage.missing == {"here": "the bundle cannot be written: File too large"}


def test_a_triage_answers_though_its_bundle_cannot_grow(tmp_path: Path) -> None:
    (tmp_path / "run42.toml").write_text(RUN)
    oncall = "import sys; from oncall.cli import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", oncall, "run42", "--triage", "--playbook", "hang", "--bundle", "bundle"],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST)),
        text=True,
        timeout=120,
    )
    assert ended.returncode in {10, 11, 12}, ended.stderr
    assert "VERDICT" in ended.stdout
    assert "the bundle cannot be written: File too large" in ended.stdout
    assert (tmp_path / "bundle/events.jsonl").stat().st_size == MOST
