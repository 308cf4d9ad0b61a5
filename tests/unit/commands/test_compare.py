"""`--compare`: an earlier triage that cannot be read costs the comparison, not the answer."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from oncall.bundle.store import Bundle
from oncall.cli import main
from oncall.rehearse.incidents import incidents


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Bundle, Bundle]:
    """A bundle, and beside it one of an hour before."""
    for name in ("now", "before"):
        shutil.copytree(incidents()["hang-by-code"].bundle.path, tmp_path / name)
    now, before = Bundle.open(tmp_path / "now"), Bundle.open(tmp_path / "before")
    manifest = msgspec.structs.replace(before.manifest, started=now.manifest.started - timedelta(hours=1))
    before.write("manifest.json", msgspec.json.encode(manifest))
    return now, before


def test_the_triage_before_is_laid_beside(pair: tuple[Bundle, Bundle], capsys: pytest.CaptureFixture[str]) -> None:
    now, before = pair
    assert main(["replay", str(now.path), "--json", "--compare"]) == 10
    assert json.loads(capsys.readouterr().out)["compared"]["bundle"] == str(before.path)


def test_one_that_cannot_be_read_costs_no_answer(
    pair: tuple[Bundle, Bundle], capsys: pytest.CaptureFixture[str]
) -> None:
    now, before = pair
    before.write("run.toml", b"nodes = [")
    assert main(["replay", str(now.path), "--json", "--compare"]) == 10
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert answer["compared"] is None
    assert answer["verdict"]["ranks"] == [5]
    assert str(before.path / "run.toml") in told.err
