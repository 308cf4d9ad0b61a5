"""Commands asked for what cannot be: each says what is wrong and the way out, and ends with the exit code of that."""

import os
import pickle
import shutil
from pathlib import Path

import pytest

from oncall.cli import COMMANDS, main
from oncall.rehearse.incidents import incidents

BUNDLE = incidents()["hang-by-code"].bundle.path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """The dumps of two ranks that wait for nobody."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    for rank in range(2):
        groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
        dump = {"version": "2.10", "pg_config": groups, "pg_status": {}, "entries": []}
        (folder / f"rank_{rank}").write_bytes(pickle.dumps(dump))
    return folder


def local_run(more: str = "") -> None:
    """A run on this machine whose processes no process can be."""
    Path("run42.toml").write_text(
        'nodes = "here"\n[reach]\nvia = "local"\n[processes]\nmatch = "no-process-is-called-so [x]"\n' + more
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_run_cannot_be_called_as_a_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", name]) == 2
    assert f"{name} is a command of oncall" in capsys.readouterr().err
    assert not Path(f"{name}.toml").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a\x1b[2Jb", "a\udcffb", "-" + "a", "nowhere/run42", "a" * 300])
def test_what_no_run_can_be_called_is_not_written(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--", name]) == 2
    said = capsys.readouterr().err
    assert said.startswith("oncall: ")
    assert len(said.splitlines()) == 2, "a cause and a way out"
    assert "internal error" not in said
    assert not list(Path().glob("*.toml"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--ranks", "0-99999999999"], "names more than 1,000,000 ranks"),
        (["--ranks", "5-2"], "is not a set of ranks"),
        (["--ranks", "\u00b2"], "is not a set of ranks"),
        (["--ranks", "7"], "--ranks: there is no dump of rank 7"),
        (["--world-size", "-1"], "--world-size must be between 1 and 1,000,000"),
        (["--world-size", "100000000000"], "--world-size must be between"),
        (["--processes", "-1"], "--processes must be between 1 and 64"),
        (["--processes", "99999"], "--processes must be between"),
    ],
)
def test_options_of_fr_out_of_range(
    options: list[str], expected: str, dumps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fr", *options, str(dumps)]) == 2
    assert expected in capsys.readouterr().err


def test_fr_judges_one_bundle_alone(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fr", str(BUNDLE), str(dumps)]) == 2
    assert f"{BUNDLE} is a bundle" in capsys.readouterr().err


def test_a_bundle_without_dumps_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(BUNDLE, tmp_path / "bundle")
    shutil.rmtree(tmp_path / "bundle" / "evidence" / "flight_recorder")
    assert main(["fr", str(tmp_path / "bundle")]) == 2
    assert "no Flight Recorder dump was fetched" in capsys.readouterr().err


def test_a_listing_of_no_dump_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rank_0").write_text("junk")
    assert main(["fr", "--print", str(tmp_path)]) == 12
    said = capsys.readouterr()
    assert said.out.startswith("rank 0: not read: not a Flight Recorder dump")
    assert "no usable dump" in said.err


def test_ranks_that_nobody_told_of_are_not_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    local_run()
    assert main(["ranks", "run42"]) == 12
    said = capsys.readouterr().err
    assert "no rank of run42 was found: 1 of 1 nodes answered" in said
    assert "`[reach]`" in said


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--guide", "--triage"], "--guide walks in the console"),
        (["--guide", "--json"], "--guide walks in the console"),
        (["--guide", "--compare"], "--guide walks in the console"),
        (["--guide"], "--guide needs a terminal"),
    ],
)
def test_a_walk_step_by_step_is_not_silently_another(
    options: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    local_run()
    for words in (["run42"], ["replay", str(BUNDLE)]):
        assert main([*words, *options]) == 2
        assert expected in capsys.readouterr().err
    assert not Path("state").exists(), "no bundle of a triage that cannot be"


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e300"])
def test_a_deadline_is_a_number_of_seconds_that_can_pass(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    local_run()
    assert main(["run42", "--triage", f"--deadline={seconds}"]) == 2
    assert "--deadline takes a number of seconds" in capsys.readouterr().err


def test_a_bundle_that_cannot_be_there_is_a_wrong_option(capsys: pytest.CaptureFixture[str]) -> None:
    local_run()
    Path("full").mkdir()
    Path("full/x").touch()
    Path("file").touch()
    for folder in ("full", "file", "file/below"):
        assert main(["run42", "--triage", "--bundle", folder]) == 2
        assert "--bundle" in capsys.readouterr().err


def test_no_state_folder_can_be_written_to(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    local_run()
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    assert main(["run42", "--triage"]) == 1
    said = capsys.readouterr().err
    assert "cannot write the bundle /dev/null/oncall/incidents/run42/" in said
    assert "--bundle" in said


def test_a_negative_rank_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.log").write_text("x\n")
    assert main(["read", "--rank", "-1", "x.log"]) == 2
    assert "--rank must be between 0 and 999,999" in capsys.readouterr().err


def test_a_device_without_an_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("oncall.commands.read.MAX_BYTES", 1 << 20)
    for command in ("read", "xid"):
        assert main([command, "/dev/zero"]) == 2
        said = capsys.readouterr()
        assert "/dev/zero is larger than" in said.out + said.err


def test_an_exporter_without_a_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["exporter", "--run", "", "."]) == 2
    assert "--run must not be empty" in capsys.readouterr().err
