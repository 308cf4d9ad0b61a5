"""The probes' scripts on this machine, against real processes and files: what they bring, and what they never touch."""

import gzip
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from oncall.bundle.evidence import Part, split_parts
from oncall.flight_recorder import analyse, load_blobs
from oncall.flight_recorder.answer import as_json
from oncall.flight_recorder.reducer import reducer_source
from oncall.probes.catalogue import PROBES
from oncall.readings.dump_list import dump_blobs
from oncall.rehearse.incidents import incidents
from oncall.run.file import parse
from oncall.run.ranks import RankMap

BOUNDARY = "oncall-0011223344556677"
WAITING = "import sys, time; sys.stdout.write('ready\\n'); sys.stdout.flush(); time.sleep(600)"


@pytest.fixture
def mark() -> str:
    """A word on the command line that tells this test's processes from all others of the machine."""
    return f"oncall_test_{uuid.uuid4().hex}"


@contextmanager
def rank_process(mark: str, rank: int, *arguments: str, code: str = WAITING, **more: str) -> Iterator[int]:
    """A Python process that knows its rank, as a launcher would have started it."""
    environ = {"PATH": os.environ["PATH"], "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "4"}
    process = subprocess.Popen(
        [sys.executable, "-c", code, mark, *arguments], env=environ | more, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        process.stdout.close()


def ask(name: str, run_text: str, **extra: str) -> list[Part]:
    """Run one probe's script here and take its output apart."""
    run = parse(f'nodes = "here"\n{run_text}', "run.toml", default_name="run")
    script = PROBES[name].build(run, RankMap(), "here", BOUNDARY, extra)
    ended = subprocess.run(["sh", "-s"], input=script, capture_output=True, timeout=60, check=True)
    return list(split_parts(ended.stdout, BOUNDARY))


def matching(mark: str) -> str:
    return f'[processes]\nmatch = "{mark}"\n'


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_processes_bring_rank_and_named_variables_only(mark: str) -> None:
    secrets = {"AWS_SECRET_ACCESS_KEY": "hunter2", "NCCL_DEBUG": "WARN", "TORCH_FR_BUFFER_SIZE": "2000"}
    with rank_process(mark, 3, "--wandb-api-key=hunter3", "--token", "hunter4", **secrets) as pid:
        parts = ask("processes", matching(mark))
    (found,) = [part for part in parts if part.name == "process"]
    assert found.attributes["rank"] == "3"
    assert found.attributes["pid"] == str(pid)
    assert "env WORLD_SIZE=4\n" in found.text
    assert "env NCCL_DEBUG=WARN\n" in found.text
    assert "env TORCH_FR_BUFFER_SIZE=2000\n" in found.text
    assert "--wandb-api-key=***" in found.text
    assert "hunter" not in "".join(part.text for part in parts)
    assert parts[-1].name == "end"


@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ({"RANK": "3", "SLURM_PROCID": "0"}, "3"),
        ({"RANK": "", "SLURM_PROCID": "5"}, "5"),
        ({"RANK": "none", "OMPI_COMM_WORLD_RANK": "6", "SLURM_PROCID": "7"}, "7"),
        ({"RANK": "none", "NOTE": "first\nRANK=1\n/proc/1/environ:RANK=2", "OMPI_COMM_WORLD_RANK": "8"}, "8"),
    ],
)
def test_each_launcher_tells_the_rank_in_its_own_way(told: dict[str, str], rank: str, mark: str) -> None:
    with rank_process(mark, 0, **told) as pid:
        parts = ask("processes", matching(mark))
    assert [(part.attributes["pid"], part.attributes["rank"]) for part in parts if part.name == "process"] == [
        (str(pid), rank)
    ]


def test_a_data_loaders_worker_is_no_rank(mark: str) -> None:
    """A worker inherits RANK; only the process above it is the rank."""
    forks = "import os, sys, time\nif os.fork(): sys.stdout.write('ready\\n'); sys.stdout.flush()\ntime.sleep(600)"
    with rank_process(mark, 1, code=forks) as pid:
        parts = ask("processes", matching(mark))
        os.system(f"pkill -9 -P {pid}")
    assert [part.attributes["pid"] for part in parts if part.name == "process"] == [str(pid)]


def test_stacks_of_all_ranks_and_nobody_left_stopped(mark: str) -> None:
    with ExitStack() as stack:
        pids = {rank: stack.enter_context(rank_process(mark, rank)) for rank in range(3)}
        parts = ask("stacks", matching(mark))
        states = {state(pid) for pid in pids.values()}
    found = {part.attributes["rank"]: part.text for part in parts if part.name == "stack"}
    assert sorted(found) == ["0", "1", "2"]
    assert all('"<module>"' in text for text in found.values())
    assert states == {"S"}


def test_a_stopped_process_is_read_and_stays_stopped(mark: str) -> None:
    with rank_process(mark, 0) as pid:
        os.kill(pid, signal.SIGSTOP)
        while state(pid) != "T":
            time.sleep(0.01)
        parts = ask("stacks", matching(mark))
        assert state(pid) == "T"
    (found,) = [part for part in parts if part.name == "stack"]
    assert '"<module>"' in found.text
    assert found.attributes["resumed"] == ""


def test_of_a_huge_log_the_end_and_the_telling_lines_are_read(tmp_path: Path, mark: str) -> None:
    """A sparse file of 20 GB: read from its beginning it would take minutes."""
    log = tmp_path / "r_x/attempt_0/0/stderr.log"
    log.parent.mkdir(parents=True)
    telling = b"[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL("
    with log.open("wb") as stream:
        stream.truncate(20_000_000_000)
        stream.seek(0, os.SEEK_END)
        stream.write(b"\n" + telling + b"SeqNum=9)\n" + b"noise of a log that scrolls on\n" * 100_000)
    began = time.monotonic()
    parts = ask("logs", f'{matching(mark)}[paths]\nlogs = "{tmp_path}"\n')
    assert time.monotonic() - began < 20
    by_name = {part.name: part for part in parts}
    assert len(by_name["file"].data) == 65_536
    assert telling in by_name["earlier"].data


def test_a_living_rank_tells_its_own_log(tmp_path: Path, mark: str) -> None:
    log = tmp_path / "out.log"
    run = "import sys, time; sys.stderr = open(sys.argv[2], 'w', 1); sys.stderr.write('hello\\n'); import os;"
    code = run + "os.dup2(sys.stderr.fileno(), 2); sys.stdout.write('ready\\n'); sys.stdout.flush(); time.sleep(600)"
    with rank_process(mark, 2, str(log), code=code):
        parts = ask("logs", matching(mark))
    (found,) = [part for part in parts if part.name == "file"]
    assert (found.attributes["path"], found.attributes["rank"], found.text) == (str(log), "2", "hello\n")


def test_what_a_rank_writes_into_a_pipe_is_left_to_its_reader(tmp_path: Path, mark: str) -> None:
    """A launcher may read a rank's output from a named pipe; each byte is there once."""
    pipe = tmp_path / "out.log"
    os.mkfifo(pipe)
    code = (
        "import os, sys, time; os.dup2(os.open(sys.argv[2], os.O_RDWR), 2); sys.stderr.write('hello\\n');"
        "sys.stderr.flush(); sys.stdout.write('ready\\n'); sys.stdout.flush(); time.sleep(600)"
    )
    with rank_process(mark, 2, str(pipe), code=code):
        parts = ask("logs", matching(mark))
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        assert os.read(reader, 100) == b"hello\n"
        os.close(reader)
    assert [part for part in parts if part.name == "file"] == []


def test_a_name_of_two_lines_is_not_two_names(tmp_path: Path, mark: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as elsewhere:
        secret = Path(elsewhere, "secret.log")
        secret.write_text("hunter2\n")
        trap = Path(f"{tmp_path}/logs/x\n{secret}")
        trap.parent.mkdir(parents=True)
        trap.write_text("bait\n")
        parts = ask("logs", f'{matching(mark)}[paths]\nlogs = "{tmp_path}/logs"\n')
    assert "hunter2" not in "".join(part.text for part in parts)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE])
def test_a_script_that_is_ended_half_way_leaves_nothing_behind(end: signal.Signals, tmp_path: Path) -> None:
    """As when its connection is lost; of a pipe that nobody reads any more, the shell's next word tells it."""
    own, checkpoints = tmp_path / "own", tmp_path / "checkpoints"
    own.mkdir()
    checkpoints.mkdir()
    run = parse(f'nodes = "here"\n[paths]\ncheckpoints = "{checkpoints}"\n', "run.toml", default_name="run")
    script = PROBES["storage"].build(run, RankMap(), "here", BOUNDARY, {"PAUSE_S": "0.5"})
    shell = subprocess.Popen(
        ["sh", "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(own)}
    )
    assert shell.stdin is not None
    assert shell.stdout is not None
    with shell, shell.stdout:
        shell.stdin.write(script)
        shell.stdin.close()
        assert any(b"\twriters\tsample=1" in line for line in shell.stdout)
        assert list(own.iterdir())
        if end is signal.SIGPIPE:
            shell.stdout.close()
        else:
            shell.send_signal(end)
        shell.wait(30)
    assert list(own.iterdir()) == []


def test_a_folder_that_is_not_there_is_said(tmp_path: Path, mark: str) -> None:
    parts = ask("logs", f'{matching(mark)}[paths]\nlogs = "{tmp_path}/nowhere"\n')
    assert [part.attributes["path"] for part in parts if part.name == "no-folder"] == [f"{tmp_path}/nowhere"]


def test_dumps_come_back_byte_for_byte(tmp_path: Path, mark: str) -> None:
    content = bytes(range(256)) * 40 + b"\n\n"
    (tmp_path / "rank_3").write_bytes(content)
    (tmp_path / "other").write_bytes(b"no dump")
    parts = ask("flight_recorder", f'{matching(mark)}[paths]\ndumps = "{tmp_path}/rank_"\n')
    (found,) = [part for part in parts if part.name == "dump"]
    assert found.attributes["path"] == f"{tmp_path}/rank_3"
    assert gzip.decompress(found.data) == content


def test_names_with_tabs_and_spaces_survive(tmp_path: Path, mark: str) -> None:
    folder = tmp_path / "a b\tc%d"
    folder.mkdir()
    (folder / "x.log").write_text("hello\n")
    parts = ask("logs", f'{matching(mark)}[paths]\nlogs = """{tmp_path}"""\n')
    assert [part.attributes["path"] for part in parts if part.name == "file"] == [str(folder / "x.log")]


def test_no_setting_of_the_run_file_runs_as_shell(tmp_path: Path, mark: str) -> None:
    hostile = tmp_path / "x'; touch PWNED; echo '$(touch PWNED)`touch PWNED`"
    run = f'{matching(mark)}[paths]\nlogs = """{hostile}"""\ndumps = """{hostile}/rank_"""\n'
    for probe in ("logs", "dumps"):
        parts = ask(probe, run)
        assert [part.attributes["path"] for part in parts if part.name == "no-folder"]
    assert not Path("PWNED").exists()


def test_dumps_reduced_on_the_node_give_the_same_answer(tmp_path: Path, mark: str) -> None:
    """The dumps of a recorded incident, fetched whole and fetched through the reducer."""
    evidence = incidents()["hang-by-code"].bundle.evidence("flight_recorder")
    assert evidence is not None
    for name, data in dump_blobs(evidence):
        (tmp_path / Path(name).name).write_bytes(data)
    answers = {}
    sizes = {}
    for way, reducer in {"whole": "", "reduced": reducer_source()}.items():
        parts = ask("flight_recorder", f'{matching(mark)}[paths]\ndumps = "{tmp_path}/rank_"\n', REDUCER=reducer)
        dumps = {part.attributes["path"]: gzip.decompress(part.data) for part in parts if part.name == "dump"}
        sizes[way] = sum(len(data) for data in dumps.values())
        answers[way] = as_json(analyse(load_blobs(dumps.items()), world_size=8))
    assert answers["whole"]["origins"][0]["ranks"] == [5]
    assert answers["reduced"]["origins"] == answers["whole"]["origins"]
    assert sizes["reduced"] < sizes["whole"]


def test_dumps_go_whole_where_python_is_too_old_for_the_reducer(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is gone, and with it its interpreter; what the system calls python3 is of 2016."""
    (tmp_path / "rank_0").write_bytes(b"whole")
    old = tmp_path / "bin" / "python3"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    parts = ask("flight_recorder", f'{matching(mark)}[paths]\ndumps = "{tmp_path}/rank_"\n', REDUCER=reducer_source())
    (found,) = [part for part in parts if part.name == "dump"]
    assert gzip.decompress(found.data) == b"whole"


def test_a_prefix_that_a_process_names_reads_no_file_of_others(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where sudo reads for the login, the variable of a hostile process would name anything."""
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    (tmp_path / "rank_0").write_bytes(b"own")
    (tmp_path / "rank_1").write_bytes(b"another's")
    os.chown(tmp_path / "rank_1", 12345, -1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    with rank_process(mark, 0, TORCH_FR_DUMP_TEMP_FILE=f"{tmp_path}/rank_"):
        parts = ask("flight_recorder", matching(mark))
    assert [part.attributes["path"] for part in parts if part.name == "dump"] == [f"{tmp_path}/rank_0"]


def test_no_program_is_run_that_another_login_names(tmp_path: Path, mark: str) -> None:
    """The process of somebody else says by its command line where py-spy lies beside its interpreter."""
    if os.getuid() != 0:
        pytest.skip("only root can start a process of another login")
    (tmp_path / "py-spy").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "py-spy").chmod(0o755)
    code = f"import os; os.setuid(12345); {WAITING}"
    environ = {"PATH": "/usr/bin:/bin", "RANK": "0"}
    argv = [str(tmp_path / "python"), "-c", code, mark]
    with subprocess.Popen(argv, executable=sys.executable, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        run = parse(f'nodes = "here"\n{matching(mark)}', "run.toml", default_name="run")
        script = PROBES["stacks"].build(run, RankMap(), "here", BOUNDARY)
        ended = subprocess.run(["sh", "-s"], input=script, capture_output=True, env=environ, timeout=60, check=True)
        process.kill()
    assert not (tmp_path / "ran").exists()
    assert [part.name for part in split_parts(ended.stdout, BOUNDARY)] == ["clock", "no-py-spy", "end"]
