"""Run files: found by name, strict, every mistake with its line."""

import os
from importlib import resources
from pathlib import Path

import pytest

from oncall.cli import main
from oncall.errors import ConfigError, UsageError
from oncall.run.file import find, load, load_ranks, parse
from oncall.run.nodes import expand_hosts

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
    assert found[1].startswith("run42.toml:4: reach.user: Expected `str`, got `int`")
    assert found[2].startswith("run42.toml:6: thresholds.stalled_s: Expected `float`, got `str`")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[reach]\n", "run42.toml: the key `nodes` is missing"),
        ('nodes = "node[001-"\n', "run42.toml:1: nodes: "),
        ('nodes = ""\n', "run42.toml:1: nodes: names no node"),
        ('nodes = "n1"\n[reach]\nport = 70000\n', "run42.toml:3: reach.port: Expected `int` <= 65535"),
        ('nodes = "n1"\nreach = 3\n', "run42.toml:2: reach: Expected `table`, got `int`"),
        (
            'nodes = "n1"\n[actions]\nexclude = "drain {hots}"\n',
            "run42.toml:3: actions.exclude: nothing fills `{hots}`",
        ),
        ('nodes = "n1"\n[actions]\nstop = "a {"\n', "run42.toml:3: actions.stop: "),
        ('nodes = "n1"\nnodes = "n2"\n', "run42.toml:2: Cannot overwrite a value"),
        ('nodes = "n[1-100000000]"\n', "run42.toml:1: nodes: names more than 100,000 nodes"),
        ('nodes = "r[1-9]n[1-9]n[1-2000]"\n', "run42.toml:1: nodes: names more than 100,000 nodes"),
        ('nodes = "n1 n2"\n', "run42.toml:1: nodes: 'n1 n2' is no host name: commas separate nodes"),
        ('nodes = "train@n1"\n', "run42.toml:1: nodes: 'train@n1' is no host name"),
        ('nodes = "@all"\n', "run42.toml:1: nodes: '@all' is no host name"),
        ('nodes = "n1"\nname = "../../etc"\n', "run42.toml:2: name: expected a name that a folder can have"),
        ('nodes = "n1"\ngpu_hour_usd = inf\n', "run42.toml:2: gpu_hour_usd: Expected `float` <= 1000000"),
        ('nodes = "n1"\n[reach]\nvia = "slurm"\n', "run42.toml:3: reach.via: 'slurm' is none of 'ssh', 'local'"),
        ('nodes = "n1"\n[reach.addresses]\nn2 = "10.0.0.2"\n', "run42.toml:3: reach.addresses.n2: `nodes` names no"),
        ('nodes = "n1"\n[reach.addresses]\nn1 = 3\n', "run42.toml:3: reach.addresses.n1: Expected `str`, got `int`"),
        ('nodes = "n1"\n[paths]\nlogs = "~/logs"\n', "run42.toml:3: paths.logs: expected a path from / on"),
        ('nodes = "n1"\n[processes]\nmatch = "("\n', "run42.toml:3: processes.match: is no regular expression"),
        ('nodes = "n1"\n[ranks]\nworld_size = 100000000000\n', "run42.toml:3: ranks.world_size: Expected `int` <="),
        ('nodes = "n1"\n[thresholds]\ntriage_s = inf\n', "run42.toml:3: thresholds.triage_s: Expected `float` <="),
        ('nodes = "n1"\n[actions]\nstop = "a {host:>99999999}"\n', "run42.toml:3: actions.stop: write `{host}` with"),
        ('nodes = "n1"\n[actions]\nstop = "a\\u001b[2J"\n', "run42.toml:3: actions.stop: expected one line of text"),
        ('nodes = "n1"\n[reach]\n"po\\u0072t" = "x"\n', "run42.toml:2: reach.port: Expected `int`, got `str`"),
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


def test_ten_thousand_nodes_and_addresses_are_nodes() -> None:
    run = parse('nodes = "node[00001-10000],10.0.0.[1-9],fe80::1"\n', "run42.toml", default_name="run42")
    assert len(expand_hosts(run.nodes)) == 10_010


@pytest.mark.parametrize("name", ["..", ".hidden", "-rf", "a\x1b[2J", "a\udcff", " "])
def test_a_file_whose_name_no_run_can_have_says_to_give_one(name: str) -> None:
    with pytest.raises(ConfigError, match="give it a `name`"):
        parse('nodes = "n1"\n', "x.toml", default_name=name)
    assert parse('nodes = "n1"\nname = "run42"\n', "x.toml", default_name=name).name == "run42"


def test_what_is_no_run_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    for name in ("folder.toml", "./pipe.toml"):
        with pytest.raises(UsageError, match="is no file"):
            find(name)
    for name in ("a" * 300, "a/" + "b" * 5000, "folder", "pipe"):
        with pytest.raises(UsageError, match=r"no such run file|no run file for"):
            find(name)
    (tmp_path / "huge.toml").write_text("é" * (1 << 20))
    with pytest.raises(UsageError, match="is larger than 1 MiB"):
        load(tmp_path / "huge.toml")
    with pytest.raises(UsageError, match="is larger than 1 MiB"):
        load(Path("/dev/zero"))
    (tmp_path / "latin.toml").write_bytes(b'nodes = "n1"\n# \xe9\n')
    with pytest.raises(ConfigError, match=r"latin.toml:2: byte 15 is no UTF-8"):
        load(tmp_path / "latin.toml")
    with pytest.raises(UsageError, match="Is a directory"):
        load(tmp_path / "folder.toml")


def test_a_slip_in_the_name_of_a_run_is_answered_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run42.toml").write_text(GOOD)
    with pytest.raises(UsageError) as caught:
        find("rnu42")
    assert caught.value.hint == "did you mean `oncall run42`?"


def test_a_file_of_the_runs_name_does_not_stand_in_front_of_its_run_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run42").write_text("a log, perhaps")
    (tmp_path / "run42.toml").write_text(GOOD)
    assert find("run42") == Path("run42.toml")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "no such file to be read; `[ranks] file` of"),
        (b"\xff", "map.csv:1: byte 0 is no UTF-8"),
        (b"rank,host\n0,n1.example.com\n", "its hosts, as n1.example.com, are none of the `nodes` of"),
    ],
)
def test_a_rank_map_that_cannot_be_used_is_named_with_who_names_it(
    content: bytes | None, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "run42.toml"
    path.write_text('nodes = "n1"\n[ranks]\nfile = "map.csv"\n')
    if content is not None:
        (tmp_path / "map.csv").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_ranks(path, load(path))
    assert expected in caught.value.cause
    assert caught.value.hint
