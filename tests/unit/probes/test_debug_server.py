"""PyTorch's debug server as a source of stacks and recorder dumps: of living ranks, and of servers that mislead."""

import ast
import gzip
import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from oncall.bundle.evidence import Part
from oncall.probes.catalogue import PROBES
from oncall.readings.dump_list import dump_list
from oncall.readings.fresh_dumps import fresh_dumps
from oncall.readings.stack_set import StackSet, stack_set
from oncall.run.model import Paths, Processes, Run
from oncall.run.ranks import RankMap

from ..playbook.walking import concludes
from ..readings.evidence import Part as EvidencePart
from ..readings.evidence import Scene
from .asking import ask, spoken, training

pytest.importorskip("torch")


@dataclass(frozen=True)
class Job:
    """Two ranks that hang, and a word of their command lines."""

    word: str
    ports: Mapping[int, int]

    def run(self, debug_server: int | Literal["find"] | None = "find") -> Run:
        """A run file of it in which py-spy reads nothing, as where attaching is refused, and there are no dumps."""
        processes = Processes(match=self.word, py_spy="/bin/false", debug_server=debug_server)
        return Run(nodes="node001", paths=Paths(dumps="/nonexistent/rank_"), processes=processes)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """Rank 0 serves on a port of its own choice, rank 1 on the Unix socket that the launcher named."""
    folder, word = tmp_path_factory.mktemp("job"), f"debugged-{uuid.uuid4().hex}"
    with ExitStack() as stack:
        ranks = []
        for rank in (0, 1):
            env = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
            env |= {"TORCH_FR_BUFFER_SIZE": "100", "GLOO_SOCKET_IFNAME": "lo"}
            env |= {"TORCH_WORKER_SERVER_SOCKET": str(folder / "socket")} if rank == 1 else {}
            argv = [sys.executable, str(Path(__file__).with_name("debug_job.py")), str(folder / "store"), word]
            ranks.append(
                stack.enter_context(subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
            )
            stack.callback(ranks[-1].kill)
        ports = {}
        for rank, process in enumerate(ranks):
            assert process.stdout is not None
            ports[rank] = int(process.stdout.readline())
        yield Job(word, ports)


@pytest.fixture(scope="module")
def told(job: Job) -> dict[str, list[EvidencePart]]:
    """Probe → what it brought of the job."""
    probes = {"processes": {}, "stacks": {}, "dumps": {}, "flight_recorder": {"FETCH": "1"}}
    return {probe: spoken(ask(probe, job.run(), **more)) for probe, more in probes.items()}


@pytest.fixture
def scene(told: dict[str, list[EvidencePart]], tmp_path: Path) -> Scene:
    made = Scene(tmp_path, nodes="node001")
    for probe, parts in told.items():
        made.say(probe, {"node001": parts})
    return made


def stacks_of(scene: Scene) -> StackSet:
    stacks = scene.case.view("stacks", stack_set)
    assert stacks is not None
    return stacks


def test_stacks_where_py_spy_may_not_attach(scene: Scene) -> None:
    stacks = stacks_of(scene)
    assert stacks.failures == {}
    assert stacks.stacks[0].standing.where == "collective_wait"
    assert [frame.func for frame in stacks.stacks[1].frames] == ["fetch_shard", "<module>"]


def test_recorders_where_no_dump_was_written(scene: Scene) -> None:
    listed = scene.case.view("dumps", dump_list)
    assert listed is not None
    assert listed.live == {0: "node001", 1: "node001"}
    fresh = fresh_dumps(scene.case)
    assert fresh is not None
    assert {rank: [op.seq for op in dump.ops] for rank, dump in fresh.dumps.dumps.items()} == {0: [1, 2], 1: [1]}


def test_the_hang_is_explained_by_it_alone(scene: Scene) -> None:
    walked = concludes(scene, "hang")
    steps = {step.step: step.judgement for step in walked.steps}
    told = steps["collective"]
    assert (told.verdict, told.findings[0].ranks, told.findings[0].sequence) == ("absent", (1,), 2)
    assert "fetch_shard" in (steps["stack-of-absent"].findings[0].frame or "")


def test_a_recorder_is_packed_on_its_way(told: dict[str, list[EvidencePart]]) -> None:
    packed = [data for name, pairs, data in told["flight_recorder"] if name == "live-dump" and pairs["encoding"]]
    assert len(packed) == 2
    assert all(isinstance(data, bytes) and gzip.decompress(data).startswith(b"{") for data in packed)


def test_a_port_is_that_of_local_rank_0(job: Job, tmp_path: Path) -> None:
    """Rank 1 answers on no port, which is told beside what py-spy said."""
    parts = spoken(ask("stacks", job.run(job.ports[0])))
    stacks = stacks_of(Scene(tmp_path, nodes="node001").say("stacks", {"node001": parts}))
    assert list(stacks.stacks) == [0]
    assert f"debug server {job.ports[0] + 1}: ConnectionRefusedError" in stacks.failures[1]


def test_nobody_is_asked_unless_the_run_file_says_so(job: Job) -> None:
    run = job.run(None)
    assert not {"traceback", "traceback-error"} & ask("stacks", run).keys()
    assert not {"live", "live-error"} & ask("dumps", run).keys()


ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n"
PAGE = b"<html><script>alert(1)</script>Thread 0x01 (most recent call first):</html>"
COLOURED = b'Thread 0x01 (most recent call first):\n  File "\x1b]0;owned\x07t.py", line 1 in \x1b[2Jf\n'


def sized(body: bytes) -> bytes:
    return ANSWER.format(len(body)).encode() + body


HOSTILE = {
    "says nothing": b"",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "an error": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    "elsewhere": b"HTTP/1.1 302 Found\r\nLocation: http://localhost:1/secret\r\nContent-Length: 0\r\n\r\n",
    "a page": sized(PAGE),
    "another type": sized(b'[{"entries": 1}]'),
    "deep": sized(b"[" * 100_000),
    "too much announced": ANSWER.format(10**12).encode() + b"x" * 1000,
}


@contextmanager
def answering(reply: bytes, *, endless: bool = False) -> Iterator[tuple[int, list[bytes]]]:
    """A server that answers every connection so; yields its port and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                with link:
                    try:
                        asked.append(link.recv(65536))
                        link.sendall(reply)
                        while endless:
                            link.sendall(b"x" * 65536)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], asked
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def judged(probe: str, port: int, **more: str) -> dict[str, list[Part]]:
    with training(5, {"LOCAL_RANK": "0"}) as (_, word):
        processes = Processes(match=word, py_spy="/bin/false", debug_server=port)
        run = Run(nodes="node001", paths=Paths(dumps="/nonexistent/rank_"), processes=processes)
        return ask(probe, run, DEBUG_WAIT_S="1", **more)


@pytest.mark.parametrize("what", HOSTILE)
def test_an_answer_that_misleads_is_no_stack_and_no_dump(what: str, tmp_path: Path) -> None:
    with answering(HOSTILE[what]) as (port, asked):
        scene = Scene(tmp_path, nodes="node001")
        scene.say("stacks", {"node001": spoken(judged("stacks", port))})
        scene.say("flight_recorder", {"node001": spoken(judged("flight_recorder", port, FETCH="1"))})
    assert all(line.startswith(b"POST /handler/") for line in asked), asked
    assert stacks_of(scene).stacks == {}
    fresh = fresh_dumps(scene.case)
    assert fresh is not None
    assert fresh.dumps.dumps == {}


def test_control_sequences_do_not_come_through(tmp_path: Path) -> None:
    with answering(sized(COLOURED)) as (port, _):
        scene = Scene(tmp_path, nodes="node001").say("stacks", {"node001": spoken(judged("stacks", port))})
    (stack,) = stacks_of(scene).stacks.values()
    assert [(frame.func, frame.file) for frame in stack.frames] == [("f", "t.py")]


@pytest.mark.parametrize("probe", ["stacks", "flight_recorder"])
def test_an_endless_answer_comes_to_an_end(probe: str) -> None:
    with answering(ANSWER.format(10**12).encode(), endless=True) as (port, _):
        parts = judged(probe, port, FETCH="1")
    assert not {"traceback", "live-dump"} & {name for name, each in parts.items() if each[0].data.strip()}
    (complaint,) = [each for name in ("traceback-error", "live-error") for each in parts.get(name, [])]
    assert "more than" in complaint.text or "does not come to an end" in complaint.text


def test_what_another_process_listens_to_is_left_alone() -> None:
    """`find` looks at what the rank's own process listens to on all addresses, but for the store's port."""
    listens = "import socket; own = [socket.create_server(('', port)) for port in ({store}, 0)]"
    with answering(sized(b'["dump_traceback"]')) as (_, asked), socket.create_server(("", 0)) as free:
        store = free.getsockname()[1]
        free.close()
        with training(5, {"MASTER_PORT": str(store)}, listens.format(store=store)) as (_, word):
            run = Run(nodes="node001", processes=Processes(match=word, py_spy="/bin/false", debug_server="find"))
            parts = ask("stacks", run, DEBUG_WAIT_S="1")
    assert asked == []
    assert "no debug server among what the process listens to" in parts["traceback-error"][0].text


@pytest.mark.parametrize("named", ["22", "no path", "relative/socket"])
def test_a_socket_that_is_no_path_is_not_asked(named: str) -> None:
    with training(5, {"TORCH_WORKER_SERVER_SOCKET": named}) as (_, word):
        run = Run(nodes="node001", processes=Processes(match=word, py_spy="/bin/false", debug_server="find"))
        parts = ask("stacks", run, DEBUG_WAIT_S="1")
    assert "no debug server among what the process listens to" in parts["traceback-error"][0].text


def test_a_port_beyond_all_ports_is_said() -> None:
    """The resolver would take its last 16 bits, which are the port of somebody else."""
    with training(5, {"LOCAL_RANK": "7"}) as (_, word):
        run = Run(nodes="node001", processes=Processes(match=word, py_spy="/bin/false", debug_server=65_535))
        parts = ask("stacks", run, DEBUG_WAIT_S="1")
    assert parts["traceback-error"][0].text == "debug server 65542: OSError: no port has this number\n"


def test_the_python_of_an_old_node_reads_the_program() -> None:
    script = PROBES["stacks"].build(Run(nodes="node001"), RankMap(), "node001", "oncall-0").decode()
    program = script.split("-I -c '", 1)[1].split("'", 1)[0]
    ast.parse(program, feature_version=(3, 6))
