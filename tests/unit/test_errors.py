"""What is said of a command that ends early: nothing in a file that somebody sent commands the terminal."""

import shutil
from pathlib import Path

import pytest

from oncall.cli import main
from oncall.rehearse.incidents import incidents

CLEARS = "\\u001b[2J\\u001b]0;owned\\u0007"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("run.toml", f'"{CLEARS}" = 1\nnodes = "node001"\n'),
        ("manifest.json", f'{{"run": "x", "started": "2026-01-01T00:00:00Z", "schema": "{CLEARS}"}}'),
    ],
)
def test_a_bundle_from_somebody_else_cannot_command_the_terminal(
    file: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(incidents()["hang-by-code"].bundle.path, tmp_path / "sent")
    (tmp_path / "sent" / file).write_text(text)
    assert main(["replay", str(tmp_path / "sent"), "--triage"]) == 2
    said = capsys.readouterr().err
    assert "\\x1b[2J\\x1b]0;owned\\x07" in said
    assert all(line.isprintable() for line in said.split("\n"))
