"""Run files: found by name, strict, every mistake with its line."""

from importlib import resources
from pathlib import Path

import pytest

from oncall.cli import main
from oncall.errors import ConfigError, UsageError
from oncall.run.file import find, load, parse

GOOD = 'nodes = "node[001-004]"\n[reach]\nuser = "train"\nport = 2200\n[actions]\nexclude = "drain {host}"\n'


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "run42.toml", default_name="run42")
    return caught.value.problems


def test_a_run_takes_its_name_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run42.toml"
    path.write_text(GOOD)
    run = load(path)
    assert (run.name, run.reach.user, run.reach.port) == ("run42", "train", 2200)


def test_three_mistakes_are_three_reports_with_their_lines() -> None:
    text = 'nodes = "node[001-004]"\n[reach]\nprot = 22\nuser = 7\n[thresholds]\nstalled_s = "90"\n'
    found = problems(text)
    assert len(found) == 3
    assert found[0].startswith("run42.toml:3: reach.prot: unknown key; did you mean `port`?")
    assert found[1].startswith("run42.toml:4: reach.user: Expected `str | null`, got `int`")
    assert found[2].startswith("run42.toml:6: thresholds.stalled_s: Expected `float`, got `str`")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[reach]\n", "run42.toml: the key `nodes` is missing"),
        ('nodes = "node[001-"\n', "run42.toml:1: nodes: "),
        ('nodes = ""\n', "run42.toml:1: nodes: names no node"),
        ('nodes = "n1"\n[reach]\nport = 70000\n', "run42.toml:3: reach.port: Expected `int` <= 65535"),
        ('nodes = "n1"\nreach = 3\n', "run42.toml:2: reach: Expected `object`, got `int`"),
        ('nodes = "n1"\n[actions]\nexclude = "drain {hots}"\n', "run42.toml:3: actions.exclude: nothing fills {hots}"),
        ('nodes = "n1"\n[actions]\nstop = "a {"\n', "run42.toml:3: actions.stop: "),
        ('nodes = "n1"\nnodes = "n2"\n', "run42.toml: Cannot overwrite a value (at line 2"),
    ],
)
def test_each_mistake_is_named_with_its_line(text: str, expected: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_names_are_looked_up_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = tmp_path / "elsewhere"
    for folder in (tmp_path / "runs", extra):
        folder.mkdir()
        (folder / "run42.toml").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONCALL_RUNS", str(extra))
    assert find("run42") == Path("runs/run42.toml")
    (tmp_path / "runs/run42.toml").unlink()
    assert find("run42") == extra / "run42.toml"
    (extra / "run42.toml").unlink()
    with pytest.raises(UsageError, match="no run file for run42; looked for"):
        find("run42")


def test_init_writes_a_file_that_loads_and_overwrites_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "run42"]) == 0
    assert load(tmp_path / "run42.toml").nodes == "node[001-128]"
    assert main(["init", "run42"]) == 2
    assert "run42.toml exists already" in capsys.readouterr().err


def test_every_key_of_the_template_is_a_key_of_the_model() -> None:
    """The commented examples too: with the comment marks taken away the file still loads."""
    text = resources.files("oncall.run").joinpath("template.toml").read_text()
    live = "\n".join(
        line.removeprefix("# ") if line.startswith("# ") and " = " in line.split("#")[1] else line
        for line in text.splitlines()
    )
    run = parse(live, "template.toml", default_name="x")
    assert run.contacts.numerics == "model-oncall@example.com"
    assert run.reach.addresses == {"node001": "10.0.0.1"}


def test_a_wrong_run_file_ends_the_command_with_2_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run42.toml").write_text('nodes = "n1"\nnoodles = 1\n')
    monkeypatch.chdir(tmp_path)
    assert main(["run42", "--triage"]) == 2
    err = capsys.readouterr().err
    assert "run42.toml:2: noodles: unknown key; did you mean `nodes`?" in err
    assert "Traceback" not in err
