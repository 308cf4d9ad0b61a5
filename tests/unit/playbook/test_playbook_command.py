"""`oncall playbook`: list, show, lint, test and runbook as an operator types them."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle
from oncall.cli import main
from oncall.playbook.events import Concluded, WalkStarted
from oncall.playbook.loader import shipped

from ..readings.evidence import Scene
from .walking import kernel, rank_log, step_line, xid

EXTENDS = "extends: hang\ntitle: Ours\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site's folder with one playbook that extends `hang`, and one with a mistake."""
    folder = tmp_path / "config" / "oncall" / "playbooks"
    folder.mkdir(parents=True)
    (folder / "hang.yaml").write_text(EXTENDS)
    (folder / "broken.yaml").write_text("playbook: broken\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def test_list_names_shipped_and_own_ones_and_where_they_are_from(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["playbook", "list", "--json"]) == 0
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    rows = {row["name"]: row for row in answer["playbooks"]}
    assert answer["schema"] == "oncall.playbook/1"
    assert rows.keys() == {*shipped(), "broken"}
    assert (rows["hang"]["title"], rows["hang"]["alert"]) == ("Ours", "TrainingStepStalled")
    assert rows["hang"]["from"] == str(own / "hang.yaml")
    assert rows["checkpoint"]["from"] == "shipped"
    assert rows["broken"]["title"] is None
    assert "broken.yaml:" not in printed.out
    assert "the key `title` is missing" in printed.err


def test_a_playbook_from_somebody_else_cannot_command_the_terminal(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own / "hang.yaml").write_text('extends: hang\ntitle: "\\e[2Jsent"\n')
    (own / "broken.yaml").write_text('"\\e[2Jkey": 1\n')
    assert main(["playbook", "list"]) == 0
    printed = capsys.readouterr()
    assert "\\x1b[2Jsent" in printed.out
    assert "\\x1b[2Jkey" in printed.err
    assert "\x1b" not in printed.out + printed.err


def test_show_prints_each_question_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["playbook", "show", "checkpoint"]) == 0
    out = capsys.readouterr().out
    assert out.count("How old is the last good checkpoint") == 1
    assert "full → full: The checkpoint storage is full (cause-found)" in out


def test_lint_says_what_is_wrong_and_goes_on(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["playbook", "lint", str(own / "broken.yaml"), str(own / "hang.yaml")]) == 2
    out = capsys.readouterr().out
    assert f"{own / 'broken.yaml'}:1: the key `title` is missing" in out
    assert f"{own / 'hang.yaml'}: 23 steps" in out or "no mistake" in out


def test_lint_notes_what_may_be_a_sites_own(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noted = own / "noted.yaml"
    noted.write_text("extends: hang\nplaybook: noted\nalert: OurStorageSlow\n")
    assert main(["playbook", "lint", str(noted)]) == 0
    assert f"{noted}: no shipped rule is called `OurStorageSlow`" in capsys.readouterr().out


def test_a_file_that_cannot_be_read_is_named_and_the_rest_goes_on(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none, binary = own / "none.yaml", own / "binary.yaml"
    binary.write_bytes(b"title: \xff")
    assert main(["playbook", "lint", str(none), str(binary), str(own / "hang.yaml")]) == 2
    printed = capsys.readouterr()
    assert f"oncall: {none}: No such file or directory\n" in printed.err
    assert f"{binary}:1: byte 7 is no UTF-8\n" in printed.out
    assert f"{own / 'hang.yaml'}: " in printed.out


def bundle(folder: Path, concluded: str) -> Path:
    """An incident: node002 lost a GPU, the job still runs; recorded with this conclusion."""
    scene = Scene(folder)
    scene.say("kernel", {"node001": kernel(), "node002": kernel(xid(79, text="GPU has fallen off the bus."))})
    scene.say("logs", {"node001": [rank_log(step_line(7, "2026-03-03 02:59:58"))], "node002": []})
    scene.bundle.append_event(Concluded(at=datetime(2026, 3, 3, 3, 0, 9, tzinfo=UTC), conclusion=concluded))
    return scene.bundle.path


def test_test_walks_recorded_incidents_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("same", "other"):
        (tmp_path / name).mkdir()
    same, other = bundle(tmp_path / "same", "fault-while-running"), bundle(tmp_path / "other", "healthy")
    assert main(["playbook", "test", "hang", str(same)]) == 0
    assert "fault-while-running  as recorded" in capsys.readouterr().out
    assert main(["playbook", "test", "hang", str(same), str(other), "--json"]) == 10
    walks = json.loads(capsys.readouterr().out)["walks"]
    assert [(each["conclusion"], each["recorded"], each["same"]) for each in walks] == [
        ("fault-while-running", "fault-while-running", True),
        ("fault-while-running", "healthy", False),
    ]
    assert walks[0]["path"] == "progress: moving → hardware-while-running: fault"


def test_a_folder_that_is_no_bundle_is_named_and_the_rest_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundle(tmp_path, "fault-while-running")
    assert main(["playbook", "test", "hang", str(tmp_path / "none"), str(path)]) == 2
    printed = capsys.readouterr()
    assert f"{tmp_path / 'none'} is no bundle: manifest.json: No such file or directory" in printed.err
    assert "fault-while-running  as recorded" in printed.out


def test_another_playbook_has_nothing_to_compare_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bundle(tmp_path, "fault-while-running")
    assert main(["playbook", "test", "hardware", str(path), "--json"]) == 0
    (walked,) = json.loads(capsys.readouterr().out)["walks"]
    assert (walked["conclusion"], walked["recorded"], walked["same"]) == ("act-at-checkpoint", None, None)


def test_what_the_operator_walked_last_is_what_was_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = bundle(tmp_path, "fault-while-running")
    at = datetime(2026, 3, 3, 3, 1, tzinfo=UTC)
    for event in (
        WalkStarted(at=at, playbook="hardware", guided=False),
        Concluded(at=at, conclusion="act-at-checkpoint"),
    ):
        Bundle.open(path).append_event(event)
    for playbook, same in (("hardware", True), ("hang", None)):
        assert main(["playbook", "test", playbook, str(path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["walks"][0]["same"] is same


def test_the_runbook_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run42.toml"
    run.write_text('nodes = "node[001-128]"\n[paths]\nlogs = "/work/run42/logs"\n')
    assert main(["playbook", "runbook", "hang", "--run", str(run)]) == 0
    out = capsys.readouterr().out
    assert "# Runbook of run42" in out
    assert "/work/run42/logs/*/attempt_*/*/stderr.log" in out
    assert "Checkpoints are not saved" not in out
    assert main(["playbook", "runbook", "--html", "--run", str(run)]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")
