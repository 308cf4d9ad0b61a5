"""The probes of storage, host, fabric and GPUs, run as scripts, and what their readings make of the answers."""

import os
import subprocess
from pathlib import Path

import pytest

from oncall.readings.finding import Judgement
from oncall.readings.gpu_state import gpu_state
from oncall.readings.host_pressure import host_pressure, host_states
from oncall.readings.ports import ports
from oncall.readings.saver import saver
from oncall.readings.storage import storage
from oncall.readings.storage_set import storage_set
from oncall.run.model import Paths, Processes, Run

from ..readings.evidence import Part, Scene, process
from .asking import ask, spoken, training

WRITES = """
import threading, time
file = open({path!r}, "ab", buffering=0)
def write():
    while True:
        file.write(b"x" * 4096)
        time.sleep(0.01)
threading.Thread(target=write, daemon=True).start()
"""
HOLDS = "file = open({path!r}, 'ab', buffering=0)\nfile.write(b'x' * 4096)\n"


def one(scene_folder: Path, probe: str, answer: list[Part], checkpoints: str = "") -> Scene:
    scene = Scene(
        scene_folder, nodes="node001", more=f'[paths]\ncheckpoints = "{checkpoints}"\n' if checkpoints else ""
    )
    return scene.say(probe, {"node001": answer})


class TestStorage:
    def run(self, folder: Path, match: str = "nobody") -> Run:
        return Run(nodes="node001", paths=Paths(checkpoints=str(folder)), processes=Processes(match=match))

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "ckpt" / "iter_7").mkdir(parents=True)
        return tmp_path / "ckpt"

    def test_room_is_what_the_system_says(self, folder: Path, tmp_path: Path) -> None:
        scene = one(tmp_path / "s", "storage", spoken(ask("storage", self.run(folder))), str(folder))
        seen = scene.case.view("storage", storage_set)
        assert seen is not None
        (space,) = seen.spaces
        system = os.statvfs(folder)
        assert space.total_kb == pytest.approx(system.f_blocks * system.f_frsize / 1024, rel=0.01)
        assert space.free_kb == pytest.approx(system.f_bavail * system.f_frsize / 1024, rel=0.05)
        assert (space.answers, space.exists, space.read_only) == (True, True, False)

    def test_a_folder_that_is_not_there(self, folder: Path, tmp_path: Path) -> None:
        scene = one(tmp_path / "s", "storage", spoken(ask("storage", self.run(folder / "no"))), str(folder / "no"))
        assert storage(scene.case).verdict == "unwritable"

    def test_a_process_that_writes_is_seen_to_get_on(self, folder: Path, tmp_path: Path) -> None:
        code = WRITES.format(path=str(folder / "iter_7" / "__5_0.distcp"))
        with training(5, code=code) as (pid, word):
            scene = one(tmp_path / "s", "storage", spoken(ask("storage", self.run(folder, word), PAUSE_S="0.5")))
        seen = scene.case.view("storage", storage_set)
        assert seen is not None
        (writer,) = seen.writers
        assert (writer.pid, writer.rank, writer.moved) == (pid, 5, True)
        assert saver(scene.case).verdict == "writing"

    def test_a_process_that_holds_a_file_and_writes_nothing_is_stuck(self, folder: Path, tmp_path: Path) -> None:
        code = HOLDS.format(path=str(folder / "iter_7" / "__5_0.distcp"))
        with training(5, code=code) as (_, word):
            scene = one(tmp_path / "s", "storage", spoken(ask("storage", self.run(folder, word))))
        judged = saver(scene.case)
        assert (judged.verdict, judged.findings[0].ranks) == ("stuck", (5,))

    def test_a_mount_that_never_answers_holds_up_nothing_else(self, folder: Path, tmp_path: Path) -> None:
        """`stat` that never comes back, as on a dead NFS server: timeout(1) ends it with 124."""
        tools = tmp_path / "bin"
        tools.mkdir()
        (tools / "stat").write_text("#!/bin/sh\nexec sleep 60\n")
        (tools / "timeout").write_text('#!/bin/sh\nshift 2\nshift\nexec /usr/bin/timeout -k 1 0.2 "$@"\n')
        for tool in tools.iterdir():
            tool.chmod(0o755)
        answer = ask("storage", self.run(folder), path=tools)
        judged = storage(one(tmp_path / "s", "storage", spoken(answer), str(folder)).case)
        assert (judged.verdict, "does not answer" in judged.reason) == ("silent", True)


class TestHost:
    def test_this_machine_tells_its_memory(self, tmp_path: Path) -> None:
        scene = one(tmp_path, "host", spoken(ask("host", Run(nodes="node001"))))
        states = scene.case.view("host", host_states)
        assert states is not None
        (state,) = states
        assert state.available is not None
        assert 0 < state.available < 1
        assert state.swapped_pages is not None

    LOOK = "MemTotal: 1000000 kB\nMemAvailable: {available} kB\npswpin {pages}\npswpout {pages}\noom_kill {killed}\n"

    def judge(
        self,
        tmp_path: Path,
        *,
        available: int = 500_000,
        pages: int = 0,
        killed: int = 0,
        io: float = 0.0,
        stuck: str = "",
    ) -> Judgement:
        parts: list[Part] = []
        for sample in (0, 1):
            look = {"sample": str(sample + 1)}
            memory = self.LOOK.format(available=available, pages=pages * sample, killed=killed * sample)
            pressure = "".join(f"io {kind} avg10={io:.2f} avg60=1.0 avg300=1.0 total=1\n" for kind in ("some", "full"))
            parts += [("memory", look, memory), ("pressure", look, pressure), ("blocked", look, stuck)]
        return host_pressure(one(tmp_path, "host", parts).case)

    def test_at_ease(self, tmp_path: Path) -> None:
        assert self.judge(tmp_path).verdict == "fine"

    def test_a_busy_disk_alone_is_none(self, tmp_path: Path) -> None:
        assert self.judge(tmp_path, io=80.0).verdict == "fine"

    @pytest.mark.parametrize(
        ("what", "words"), [("available", "0.5%"), ("pages", "4,000 pages"), ("killed", "2 processes")]
    )
    def test_short_of_memory(self, what: str, words: str, tmp_path: Path) -> None:
        value = {"available": 5_000, "pages": 2_000, "killed": 2}[what]
        judged = self.judge(tmp_path, **{what: value})
        assert (judged.verdict, words in judged.reason) == ("memory", True), judged.reason

    def test_tasks_that_do_not_come_back(self, tmp_path: Path) -> None:
        stuck = "4711\tpython3\trpc_wait_bit_killable\n"
        judged = self.judge(tmp_path, stuck=stuck)
        assert judged.verdict == "blocked"
        assert "python3 (pid 4711) waits in the kernel in rpc_wait_bit_killable" in judged.reason

    def test_one_stuck_task_of_somebody_else_is_not_the_host(self, tmp_path: Path) -> None:
        assert self.judge(tmp_path, stuck="4711\trsync\tfolio_wait\n").verdict == "fine"

    def test_storage_that_does_not_answer(self, tmp_path: Path) -> None:
        judged = self.judge(tmp_path, io=97.0, stuck="4711\tpython3\tnfs_wait\n")
        assert judged.verdict == "storage"

    def test_a_node_that_does_not_tell_is_unknown(self, tmp_path: Path) -> None:
        scene = Scene(tmp_path, nodes="node001").say("host", {"node001": "timed out"})
        assert host_pressure(scene.case).verdict == "unknown"


def sysfs(folder: Path, *, state: str = "4: ACTIVE", rate: str = "400 Gb/sec (4X NDR)", errors: int = 0) -> Path:
    """A tree as the kernel shows it under /sys/class."""
    port = folder / "class" / "infiniband" / "mlx5_0" / "ports" / "1"
    for name in ("counters", "hw_counters"):
        (port / name).mkdir(parents=True)
    for name, value in {"state": state, "phys_state": "5: LinkUp", "rate": rate, "link_layer": "InfiniBand"}.items():
        (port / name).write_text(value + "\n")
    (port / "counters" / "symbol_error").write_text(f"{errors}\n")
    (port / "counters" / "port_xmit_data").write_text("123456789\n")
    (port / "hw_counters" / "local_ack_timeout_err").write_text("7\n")
    return folder / "class"


def later(part: Part, old: bytes, new: bytes) -> Part:
    """The second look with one counter changed."""
    name, look, data = part
    return name, look, data.replace(old, new) if isinstance(data, bytes) and look.get("sample") == "2" else data


class TestFabric:
    def look(self, tree: Path, tools: Path | None = None) -> list[Part]:
        if os.geteuid() != 0:
            pytest.skip("binding a tree over /sys/class needs root")
        inside = ["unshare", "--mount", "sh", "-c", f'mount --bind {tree} /sys/class && exec "$@"', "sh"]
        return spoken(ask("fabric", Run(nodes="node001"), inside=inside, path=tools))

    def judge(self, tmp_path: Path, first: list[Part], second: list[Part] | str) -> Judgement:
        return ports(Scene(tmp_path / "s").say("fabric", {"node001": first, "node002": second}).case)

    def test_sound_ports(self, tmp_path: Path) -> None:
        look = self.look(sysfs(tmp_path))
        assert self.judge(tmp_path, look, look).verdict == "fine"

    def test_a_port_that_is_up_elsewhere(self, tmp_path: Path) -> None:
        down = self.look(sysfs(tmp_path / "b", state="1: DOWN"))
        judged = self.judge(tmp_path, self.look(sysfs(tmp_path / "a")), down)
        assert (judged.verdict, judged.findings[0].hosts) == ("down", ("node002",))

    def test_a_port_that_is_down_everywhere_beside_one_that_is_up_is_not_in_use(self, tmp_path: Path) -> None:
        look = self.look(sysfs(tmp_path))
        unused: list[Part] = [
            (n, {**told, "device": "mlx5_1"}, b"state 1: DOWN\n") for n, told, _ in look if n == "port"
        ]
        assert self.judge(tmp_path, [*look, *unused], [*look, *unused]).verdict == "fine"

    def test_a_job_that_goes_over_ports_which_are_all_down_is_cut_off(self, tmp_path: Path) -> None:
        down = self.look(sysfs(tmp_path, state="1: DOWN"))
        judged = self.judge(tmp_path, down, down)
        assert (judged.verdict, [finding.hosts for finding in judged.findings]) == (
            "down",
            [("node001",), ("node002",)],
        )

    def test_a_job_that_uses_no_port_is_not(self, tmp_path: Path) -> None:
        down = self.look(sysfs(tmp_path, state="1: DOWN"))
        scene = Scene(tmp_path / "s").say("fabric", {"node001": down, "node002": down})
        plain = [(n, told, f"env NCCL_IB_DISABLE=1\n{text!s}") for n, told, text in process(0)]
        scene.say("processes", {"node001": plain, "node002": []})
        assert (ports(scene.case).verdict, ports(scene.case).findings) == ("unknown", ())

    def test_a_host_with_all_of_its_ports_down_is_one_finding(self, tmp_path: Path) -> None:
        sound, down = self.look(sysfs(tmp_path / "a")), self.look(sysfs(tmp_path / "b", state="1: DOWN"))
        more: list[Part] = [(n, {**told, "device": "mlx5_1"}, text) for n, told, text in down if n == "port"]
        judged = self.judge(tmp_path, sound, [*down, *more])
        assert [finding.hosts for finding in judged.findings] == [("node002",)]
        assert "mlx5_0/1 DOWN, mlx5_1/1 DOWN" in judged.reason

    @pytest.mark.parametrize(
        "counter", ["rx_icrc_encapsulated", "port_xmit_constraint_errors", "port_rcv_constraint_errors"]
    )
    def test_counters_that_stand_still_on_a_sound_link(self, counter: str, tmp_path: Path) -> None:
        tree = sysfs(tmp_path)
        (tree / "infiniband/mlx5_0/ports/1/counters" / counter).write_text("5000\n")
        first = self.look(tree)
        grown = [later(part, f"{counter} 5000".encode(), f"{counter} 5001".encode()) for part in first]
        assert self.judge(tmp_path / "new", first, grown).verdict == "errors"

    def test_what_rdma_alone_counts(self, tmp_path: Path) -> None:
        """In the form of iproute2's `rdma statistic show`: one link a line, names and values in turn."""
        tools = tmp_path / "bin"
        tools.mkdir()
        count = f"n=$(cat {tmp_path}/n 2>/dev/null || echo 7); echo $((n + 5)) >{tmp_path}/n"
        (tools / "rdma").write_text(
            f'#!/bin/sh\n[ "$*" = "statistic show" ] || exit 1\n{count}\n'
            'echo "link mlx5_0/1 rx_write_requests 1$n out_of_buffer $n local_ack_timeout_err 7"\n'
        )
        (tools / "rdma").chmod(0o755)
        look = self.look(sysfs(tmp_path), tools)
        judged = self.judge(tmp_path / "new", look, look)
        assert judged.verdict == "errors"
        assert "out_of_buffer +5 in 3 s" in judged.reason
        assert "local_ack_timeout_err" not in judged.reason

    def test_a_slower_rate(self, tmp_path: Path) -> None:
        slow = self.look(sysfs(tmp_path / "b", rate="100 Gb/sec (1X NDR)"))
        judged = self.judge(tmp_path, self.look(sysfs(tmp_path / "a")), slow)
        assert judged.verdict == "slow"
        assert "node002: port mlx5_0/1 runs at 100 Gb/s, others at 400" in judged.reason

    def test_errors_count_only_where_they_grow(self, tmp_path: Path) -> None:
        first = self.look(sysfs(tmp_path, errors=5_000))
        assert self.judge(tmp_path / "old", first, first).verdict == "fine"
        grown = [later(part, b"symbol_error 5000", b"symbol_error 5012") for part in first]
        judged = self.judge(tmp_path / "new", first, grown)
        assert judged.verdict == "errors"
        assert "symbol_error +12 in 3 s" in judged.reason

    def test_a_host_without_a_port_that_its_peers_have_has_lost_it(self, tmp_path: Path) -> None:
        judged = self.judge(tmp_path, self.look(sysfs(tmp_path)), [("no-ports", {}, "")])
        assert (judged.verdict, judged.findings[0].hosts) == ("down", ("node002",))

    def test_one_host_of_many_that_has_a_port_accuses_no_other(self, tmp_path: Path) -> None:
        none: list[Part] = [("no-ports", {}, "")]
        scene = Scene(tmp_path / "s", nodes="node[001-003]")
        scene.say("fabric", {"node001": self.look(sysfs(tmp_path)), "node002": none, "node003": none})
        assert ports(scene.case).verdict == "unknown"

    def test_a_host_without_an_answer_is_unknown(self, tmp_path: Path) -> None:
        assert self.judge(tmp_path, self.look(sysfs(tmp_path)), "timed out").verdict == "unknown"


class TestGpus:
    def tools(self, folder: Path, script: str) -> Path:
        folder.mkdir()
        (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "nvidia-smi").chmod(0o755)
        return folder

    def test_a_driver_that_hangs(self, tmp_path: Path) -> None:
        tools = self.tools(tmp_path / "bin", "exec sleep 60")
        (tools / "timeout").write_text('#!/bin/sh\nshift 3\nexec /usr/bin/timeout -k 1 0.2 "$@"\n')
        (tools / "timeout").chmod(0o755)
        scene = one(tmp_path / "s", "gpu_health", spoken(ask("gpu_health", Run(nodes="node001"), path=tools)))
        assert gpu_state(scene.case).verdict == "hung"

    def test_a_driver_that_has_lost_a_gpu_is_quoted(self, tmp_path: Path) -> None:
        said = "Unable to determine the device handle for GPU0000:4F:00.0: GPU is lost.  Reboot the system"
        tools = self.tools(tmp_path / "bin", f"echo '{said}' >&2; exit 15")
        scene = one(tmp_path / "s", "gpu_health", spoken(ask("gpu_health", Run(nodes="node001"), path=tools)))
        judged = gpu_state(scene.case)
        assert (judged.verdict, "GPU is lost. Reboot the system" in judged.reason) == ("hung", True)

    def test_an_answer_is_kept_whole_and_asked_twice(self, tmp_path: Path) -> None:
        tools = self.tools(
            tmp_path / "bin",
            'case "$*" in "-q -x") echo "<nvidia_smi_log><gpu id=\'00000000:4F:00.0\'><uuid>GPU-aa</uuid></gpu>'
            '</nvidia_smi_log>";; *) echo "GPU 0: H100 (UUID: GPU-aa)";; esac',
        )
        parts = ask("gpu_health", Run(nodes="node001"), path=tools)
        assert [part.attributes["sample"] for part in parts["query"]] == ["1", "2"]
        assert gpu_state(one(tmp_path / "s", "gpu_health", spoken(parts)).case).verdict == "fine"

    def test_entities_are_refused(self, tmp_path: Path) -> None:
        bomb = '<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;">]><nvidia_smi_log>&c;</nvidia_smi_log>'
        parts: list[Part] = [("query", {"sample": "1"}, bomb), ("exit", {"sample": "1", "code": "0"}, "")]
        assert gpu_state(one(tmp_path, "gpu_health", parts).case).verdict == "unknown"


def test_every_script_is_posix_shell() -> None:
    for script in Path(__file__).parents[3].glob("oncall/probes/*.sh"):
        checked = subprocess.run(["dash", "-n", str(script)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
