"""The readings of the hang tree: each verdict from what it means, and `unknown` where the evidence is withheld."""

import json
from pathlib import Path

import pytest

from oncall.flight_recorder.model import Grade
from oncall.readings.alive import alive
from oncall.readings.checkpoints import newest_checkpoint
from oncall.readings.finding import Role
from oncall.readings.hardware import hardware
from oncall.readings.progress import progress
from oncall.readings.restarts import restarts
from oncall.readings.standings import standings
from oncall.readings.suspect_stacks import suspect_stacks
from oncall.readings.watchdog import watchdog

from .evidence import NOW, UPTIME_S, Part, Scene, log, process, processes

STEP = (
    " [2026-03-03 02:{minute:02}:00] iteration      {step}/  100000 | consumed samples:         1000 |"
    " elapsed time per iteration (ms): 4812.3 | learning rate: 2.987E-04 | global batch size:   512 |"
    " lm loss: 2.104E+00 | loss scale: 1.0 | grad norm: 0.812 | number of skipped iterations:   0 |"
    " number of nan iterations:   0 |\n"
)
TIMEOUT = (
    "[rank{rank}]:[E303 02:59:00.000000000 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective operation"
    " timeout: WorkNCCL(SeqNum=26, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600014"
    " milliseconds before timing out.\n"
)
XID = "<3>[{uptime:12.6f}] NVRM: Xid (PCI:0000:4f:00): {code}, pid='<unknown>', name=<unknown>, {text}\n"
COMPLETE = {"node001": processes(range(4)), "node002": processes(range(4, 8))}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def stack(rank: int, *frames: tuple[str, str, int]) -> list[Part]:
    """A main thread with these frames, innermost first, as py-spy prints JSON."""
    rows = [{"name": n, "filename": f, "short_filename": f, "line": line, "module": None} for n, f, line in frames]
    pid = 1000 + rank
    thread = {"pid": pid, "thread_id": 1, "thread_name": "MainThread", "os_thread_id": pid, "active": False}
    thread |= {"owns_gil": False, "frames": rows, "process_info": None}
    return [("stack", {"pid": str(pid), "rank": str(rank), "exit": "0"}, json.dumps([thread]))]


WAITS = (("all_reduce", "torch/distributed/distributed_c10d.py", 2800), ("step", "train.py", 40))
LOADS = (
    ("wait", "multiprocessing/connection.py", 930),
    ("get", "multiprocessing/queues.py", 103),
    ("_try_get_data", "torch/utils/data/dataloader.py", 1120),
    ("__next__", "torch/utils/data/dataloader.py", 700),
    ("main", "train.py", 90),
)
LOCKS = (("wait", "threading.py", 327), ("get_shard", "train.py", 55))
SYNCHRONISES = (("synchronize", "torch/cuda/__init__.py", 900), ("log_loss", "train.py", 70))
INITIALISES = (
    ("_new_process_group_helper", "torch/distributed/distributed_c10d.py", 2169),
    ("init_process_group", "torch/distributed/distributed_c10d.py", 1800),
    ("main", "train.py", 9),
)


def stacks(scene: Scene, table: dict[int, tuple[tuple[str, str, int], ...]], missing: str = "") -> Scene:
    """Stacks of ranks on two nodes of four; `missing` names a node that did not answer."""
    answers: dict[str, list[Part] | str] = {}
    for number, host in enumerate(("node001", "node002")):
        own = [part for r in range(4 * number, 4 * number + 4) if r in table for part in stack(r, *table[r])]
        answers[host] = "no SSH greeting within 6 s" if host == missing else own
    return scene.say("processes", dict(COMPLETE)).say("stacks", answers)


class TestProgress:
    def test_an_old_last_step_is_stopped(self, scene: Scene) -> None:
        scene.say("logs", {"node001": [log("/l/stdout.log", STEP.format(minute=54, step=1370))], "node002": []})
        judged = progress(scene.case)
        assert judged.verdict == "stopped"
        assert "1370, 360 s ago" in judged.reason

    def test_a_fresh_last_step_moves(self, scene: Scene) -> None:
        scene.say("logs", {"node001": [log("/l/stdout.log", STEP.format(minute=59, step=1370))], "node002": []})
        assert progress(scene.case).verdict == "moving"

    def test_lines_that_scroll_after_an_undated_step_prove_nothing(self, scene: Scene) -> None:
        undated = STEP.format(minute=54, step=7).split("] ", 1)[1]
        scene.say("logs", {"node001": [log("/l/stdout.log", undated + "warning: slow\n" * 50, age_s=1)], "node002": []})
        judged = progress(scene.case)
        assert judged.verdict == "unknown"
        assert "only bounded" in judged.reason

    def test_a_later_step_seen_moments_after_moves(self, scene: Scene) -> None:
        undated = STEP.format(minute=54, step=7).split("] ", 1)[1]
        later = undated.replace(" 7/", " 8/", 1)
        parts = [log("/l/stdout.log", undated + "warning\n"), ("again", {"path": "/l/stdout.log"}, later)]
        scene.say("logs", {"node001": parts, "node002": []})
        assert progress(scene.case).verdict == "moving"

    def test_no_log_is_unknown(self, scene: Scene) -> None:
        scene.say("logs", {"node001": "connection refused", "node002": "connection refused"})
        assert progress(scene.case).verdict == "unknown"


class TestAlive:
    def test_all_there(self, scene: Scene) -> None:
        scene.say("processes", dict(COMPLETE))
        assert alive(scene.case).verdict == "all-alive"

    def test_one_gone_is_named_with_its_host(self, scene: Scene) -> None:
        scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(5, 8))})
        scene.say("logs", {"node001": [], "node002": []})
        judged = alive(scene.case)
        assert judged.verdict == "gone"
        (finding,) = judged.findings
        assert (finding.ranks, finding.hosts, finding.grade) == ((4,), ("node002",), Grade.SURE)

    def test_gone_between_the_two_looks_counts(self, scene: Scene) -> None:
        half = [*processes(range(4, 7)), *process(7, again=None)]
        scene.say("processes", {"node001": processes(range(4)), "node002": half})
        assert alive(scene.case).findings[0].ranks == (7,)

    def test_ended_by_its_own_watchdog_is_a_victim(self, scene: Scene) -> None:
        scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(5, 8))})
        end = log("/l/r_x/attempt_0/0/stderr.log", TIMEOUT.format(rank=4))
        scene.say("logs", {"node001": [], "node002": [end]})
        judged = alive(scene.case)
        assert judged.verdict == "unknown"
        assert not judged.findings

    @pytest.mark.parametrize(
        ("state", "verdict", "kind"), [("T", "stopped", "host_frozen"), ("D", "blocked", "blocked_in_kernel")]
    )
    def test_a_process_that_cannot_run(self, scene: Scene, state: str, verdict: str, kind: str) -> None:
        half = [*processes(range(4, 7)), *process(7, state=state, again=state)]
        scene.say("processes", {"node001": processes(range(4)), "node002": half})
        judged = alive(scene.case)
        assert (judged.verdict, judged.findings[0].kind, judged.findings[0].ranks) == (verdict, kind, (7,))

    def test_a_moment_in_the_kernel_is_no_fault(self, scene: Scene) -> None:
        half = [*processes(range(4, 7)), *process(7, state="D", again="R")]
        scene.say("processes", {"node001": processes(range(4)), "node002": half})
        assert alive(scene.case).verdict == "all-alive"

    def test_a_silent_node_is_no_lost_rank(self, scene: Scene) -> None:
        scene.say("processes", {"node001": processes(range(4)), "node002": "no SSH greeting within 6 s"})
        judged = alive(scene.case)
        assert judged.verdict == "unknown"
        assert "4-7" in judged.reason
        assert "no SSH greeting" in judged.reason

    def test_ranks_of_another_user_are_not_lost(self, scene: Scene) -> None:
        hidden: list[Part] = [("access", {"user": "me"}, "python\npython\n")]
        scene.say("processes", {"node001": processes(range(4)), "node002": [*hidden, *process(4)]})
        judged = alive(scene.case)
        assert judged.verdict == "unknown"
        assert "me may not read the environment of 2 Python processes" in judged.reason

    def test_nobody_to_be_seen_is_no_job_that_is_gone(self, scene: Scene) -> None:
        hidden: list[Part] = [("access", {"user": "me", "others_hidden": "yes"}, "")]
        scene.say("processes", {"node001": hidden, "node002": []})
        judged = alive(scene.case)
        assert judged.verdict == "unknown"
        assert "hidepid" in judged.reason

    def test_nobody_anywhere_is_a_job_that_is_gone(self, scene: Scene) -> None:
        scene.say("processes", {"node001": [], "node002": []})
        assert alive(scene.case).verdict == "job-gone"

    def test_nobody_where_one_node_was_not_seen_is_unknown(self, scene: Scene) -> None:
        scene.say("processes", {"node001": [], "node002": "connection refused"})
        assert alive(scene.case).verdict == "unknown"


class TestRestarts:
    def logs(self, scene: Scene, attempt: int, age_s: int, text: str = "") -> Scene:
        folder = f"/l/r_x/attempt_{attempt}"
        listing = ("attempts", {}, f"{int(NOW.timestamp()) - age_s} {folder}\n")
        return scene.say("logs", {"node001": [listing, log(f"{folder}/0/stdout.log", text)], "node002": []})

    def test_the_first_start_is_steady(self, scene: Scene) -> None:
        assert restarts(self.logs(scene, 0, 9000).case).verdict == "steady"

    def test_a_new_attempt_without_steps_is_restarting(self, scene: Scene) -> None:
        assert restarts(self.logs(scene, 2, 45).case).verdict == "restarting"

    def test_an_attempt_that_made_steps_has_hung_again(self, scene: Scene) -> None:
        judged = restarts(self.logs(scene, 2, 500, STEP.format(minute=54, step=9)).case)
        assert judged.verdict == "steady"

    def test_an_attempt_that_takes_too_long_is_no_start(self, scene: Scene) -> None:
        assert restarts(self.logs(scene, 1, 3600).case).verdict == "steady"

    def test_a_node_that_stayed_at_its_attempt_is_read_all_the_same(self, scene: Scene) -> None:
        """torchrun 2.13 makes attempt_1 on the node whose rank failed; the other writes attempt_0 anew."""
        listing = ("attempts", {}, f"{int(NOW.timestamp()) - 500} /l/r_x/attempt_1\n")
        steps = log("/l/r_y/attempt_0/0/stdout.log", STEP.format(minute=54, step=9))
        failed = log("/l/r_x/attempt_1/0/stdout.log", "starting\n")
        scene.say("logs", {"node001": [steps], "node002": [listing, failed]})
        assert "9, 360 s ago" in progress(scene.case).reason
        assert restarts(scene.case).verdict == "steady"

    def test_nothing_told_is_unknown(self, scene: Scene) -> None:
        scene.say("logs", {"node001": [], "node002": []})
        assert restarts(scene.case).verdict == "unknown"


class TestWatchdog:
    def test_a_time_out_is_found_with_its_rank(self, scene: Scene) -> None:
        scene.say("logs", {"node001": [log("/l/a/attempt_0/3/stderr.log", TIMEOUT.format(rank=3))], "node002": []})
        judged = watchdog(scene.case)
        assert judged.verdict == "timed-out"
        assert judged.findings[0].ranks == (3,)
        assert judged.findings[0].sequence == 26

    def test_a_time_out_of_an_older_run_in_the_same_folder_is_past(self, scene: Scene) -> None:
        """An earlier start left attempt_3 behind; the run of now is at attempt_0."""
        old = log("/l/run_old/attempt_3/3/stderr.log", TIMEOUT.format(rank=3), age_s=90_000)
        new = log("/l/run_new/attempt_0/3/stderr.log", "starting\n", age_s=200)
        scene.say("logs", {"node001": [old, new], "node002": []})
        assert watchdog(scene.case).verdict == "quiet"

    def test_a_time_out_of_an_earlier_attempt_is_past(self, scene: Scene) -> None:
        old = log("/l/a/attempt_0/3/stderr.log", TIMEOUT.format(rank=3))
        new = log("/l/a/attempt_1/3/stderr.log", "starting\n")
        scene.say("logs", {"node001": [old, new], "node002": []})
        assert watchdog(scene.case).verdict == "quiet"

    def test_quiet_needs_every_node(self, scene: Scene) -> None:
        scene.say("logs", {"node001": [log("/l/a.log", "fine\n")], "node002": "connection refused"})
        assert watchdog(scene.case).verdict == "unknown"

    def test_dumps_since_the_last_step_count(self, scene: Scene) -> None:
        scene.say("logs", {"node001": [log("/l/stdout.log", STEP.format(minute=54, step=7))], "node002": []})
        fresh = ("listed", {"path": "/d/rank_0", "size": "9", "mtime": str(int(NOW.timestamp()) - 60)}, "")
        scene.say("dumps", {"node001": [fresh], "node002": []})
        assert watchdog(scene.case).verdict == "dumped"

    def test_dumps_of_an_older_hang_do_not(self, scene: Scene) -> None:
        scene.say("logs", {"node001": [log("/l/stdout.log", STEP.format(minute=54, step=7))], "node002": []})
        stale = ("listed", {"path": "/d/rank_0", "size": "9", "mtime": str(int(NOW.timestamp()) - 4000)}, "")
        scene.say("dumps", {"node001": [stale], "node002": []})
        assert watchdog(scene.case).verdict == "quiet"


class TestStandings:
    def test_the_one_elsewhere_is_named(self, scene: Scene) -> None:
        stacks(scene, {rank: LOADS if rank == 6 else WAITS for rank in range(8)})
        judged = standings(scene.case)
        assert judged.verdict == "few-elsewhere"
        (origin,) = [finding for finding in judged.findings if finding.role is Role.ORIGIN]
        assert (origin.ranks, origin.hosts, origin.kind) == ((6,), ("node002",), "data_stall")
        assert origin.grade is Grade.SURE
        scene.case.findings = judged.findings
        assert suspect_stacks(scene.case).verdict == "data"

    def test_a_lock_is_the_host(self, scene: Scene) -> None:
        stacks(scene, {rank: LOCKS if rank == 6 else WAITS for rank in range(8)})
        scene.case.findings = standings(scene.case).findings
        assert suspect_stacks(scene.case).verdict == "host"

    def test_everyone_in_the_loader_is_the_data(self, scene: Scene) -> None:
        stacks(scene, dict.fromkeys(range(8), LOADS))
        assert standings(scene.case).verdict == "all-in-data"

    def test_initialisation_waits_for_the_one_that_is_not_there(self, scene: Scene) -> None:
        stacks(scene, {rank: LOCKS if rank == 2 else INITIALISES for rank in range(8)})
        judged = standings(scene.case)
        assert judged.verdict == "initialisation"
        assert judged.findings[0].ranks == (2,)

    def test_most_wait_for_their_gpus_and_the_one_elsewhere_is_named(self, scene: Scene) -> None:
        """In a hang of NCCL the hosts run ahead into `.item()`; the one that loads data holds them up."""
        stacks(scene, {rank: LOADS if rank == 6 else SYNCHRONISES for rank in range(8)})
        judged = standings(scene.case)
        assert judged.verdict == "few-elsewhere"
        assert judged.findings[0].ranks == (6,)

    def test_few_in_item_while_most_wait_in_a_collective_are_looked_at(self, scene: Scene) -> None:
        stacks(scene, {rank: SYNCHRONISES if rank == 6 else WAITS for rank in range(8)})
        judged = standings(scene.case)
        assert (judged.verdict, judged.findings[0].ranks, judged.findings[0].grade) == (
            "few-elsewhere",
            (6,),
            Grade.LIKELY,
        )

    def test_everyone_in_synchronize_waits(self, scene: Scene) -> None:
        stacks(scene, dict.fromkeys(range(8), SYNCHRONISES))
        assert standings(scene.case).verdict == "all-wait"

    def test_everyone_waits_is_no_accusation(self, scene: Scene) -> None:
        stacks(scene, dict.fromkeys(range(8), WAITS))
        judged = standings(scene.case)
        assert judged.verdict == "all-wait"
        assert not [finding for finding in judged.findings if finding.role is Role.ORIGIN]

    def test_only_waiting_seen_and_some_not_seen_is_unknown(self, scene: Scene) -> None:
        stacks(scene, dict.fromkeys(range(8), WAITS), missing="node002")
        judged = standings(scene.case)
        assert judged.verdict == "unknown"
        assert "4-7" in judged.reason

    def test_with_some_not_seen_the_one_elsewhere_is_only_likely(self, scene: Scene) -> None:
        stacks(scene, {rank: LOADS if rank == 1 else WAITS for rank in range(8)}, missing="node002")
        judged = standings(scene.case)
        assert judged.verdict == "few-elsewhere"
        assert judged.findings[0].grade is Grade.LIKELY

    def test_no_py_spy_is_unknown_and_said(self, scene: Scene) -> None:
        scene.say("processes", dict(COMPLETE))
        scene.say("stacks", {"node001": [("no-py-spy", {"machine": "x86_64"}, "")], "node002": []})
        judged = standings(scene.case)
        assert judged.verdict == "unknown"
        assert "no py-spy on node001" in judged.reason


class TestHardware:
    def kernel(self, scene: Scene, text: str, **more: list[Part] | str) -> Scene:
        answers: dict[str, list[Part] | str] = {"node001": [("kernel", {"form": "dmesg"}, "")]}
        answers["node002"] = [("kernel", {"form": "dmesg"}, text)]
        answers |= more
        return scene.say("processes", dict(COMPLETE)).say("kernel", answers)

    def xid(self, code: int, text: str, ago_s: float = 108.0) -> str:
        return XID.format(uptime=UPTIME_S - ago_s, code=code, text=text).removeprefix("<3>")

    def test_a_lost_gpu_is_a_fault_with_its_time(self, scene: Scene) -> None:
        self.kernel(scene, self.xid(79, "GPU has fallen off the bus."))
        judged = hardware(scene.case)
        assert judged.verdict == "fault"
        (finding,) = judged.findings
        assert (finding.kind, finding.hosts) == ("gpu_fault", ("node002",))
        assert finding.time is not None
        assert f"{finding.time:%H:%M:%S}" == "02:58:12"

    def test_the_gpu_is_named_by_rank_where_the_address_is_known(self, scene: Scene) -> None:
        self.kernel(scene, self.xid(79, "GPU has fallen off the bus."))
        table = "0, GPU-aa, 00000000:1A:00.0\n3, GPU-bb, 00000000:4F:00.0\n"
        scene.say("gpus", {"node001": [], "node002": [("gpus", {"form": "nvidia-smi"}, table)]})
        assert hardware(scene.case).findings[0].ranks == (7,)

    def test_the_drivers_own_files_tell_the_address_too(self, scene: Scene) -> None:
        self.kernel(scene, self.xid(79, "GPU has fallen off the bus."))
        block = "Model: \t NVIDIA H100\nGPU UUID: \t {}\nBus Location: \t {}\n"
        files = block.format("GPU-bb", "0000:4f:00.0") + block.format("GPU-aa", "0000:1a:00.0")
        scene.say("gpus", {"node001": [], "node002": [("gpus", {"form": "proc"}, files)]})
        assert hardware(scene.case).findings[0].ranks == (5,)

    def test_an_old_fault_explains_nothing(self, scene: Scene) -> None:
        self.kernel(scene, self.xid(79, "GPU has fallen off the bus.", ago_s=90_000.0))
        assert hardware(scene.case).verdict == "clear"

    def test_a_fault_of_the_users_program_is_no_hardware(self, scene: Scene) -> None:
        self.kernel(scene, self.xid(31, "Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS"))
        assert hardware(scene.case).verdict == "clear"

    def test_an_unknown_code_is_only_likely(self, scene: Scene) -> None:
        self.kernel(scene, self.xid(991, "something new"))
        judged = hardware(scene.case)
        assert judged.verdict == "fault"
        assert judged.findings[0].grade is Grade.LIKELY

    def test_a_log_that_may_not_be_read_is_unknown(self, scene: Scene) -> None:
        refused: list[Part] = [("refused", {}, "dmesg: read kernel buffer failed: Operation not permitted\n")]
        self.kernel(scene, "", node002=refused)
        judged = hardware(scene.case)
        assert judged.verdict == "unknown"
        assert "Operation not permitted" in judged.reason

    def test_a_fault_elsewhere_speaks_against_the_suspect(self, scene: Scene) -> None:
        self.kernel(scene, self.xid(79, "GPU has fallen off the bus."))
        half = processes(range(1, 4))
        scene.say("processes", {"node001": half, "node002": processes(range(4, 8))})
        scene.case.findings = alive(scene.case).findings
        assert scene.case.findings[0].hosts == ("node001",)
        judged = hardware(scene.case)
        assert judged.verdict == "clear"
        assert [finding.role for finding in judged.findings] == [Role.AGAINST]


@pytest.mark.parametrize(
    ("name", "step"),
    [("iter_0051000", 51000), ("step-51000", 51000), ("global_step51000", 51000), ("checkpoint-51000", 51000)],
)
def test_checkpoint_folders_tell_their_step(scene: Scene, name: str, step: int) -> None:
    listing = f"{int(NOW.timestamp()) - 600} /c/{name}\n{int(NOW.timestamp()) - 900} /c/latest\n"
    scene.say("logs", {"node001": [("checkpoints", {"path": "/c"}, listing)], "node002": []})
    newest = newest_checkpoint(scene.case)
    assert newest is not None
    assert (newest.step, newest.age_s) == (step, 600.0)


def test_the_frameworks_own_note_goes_before_a_folder_that_may_be_half_written(scene: Scene) -> None:
    listing = ("checkpoints", {"path": "/c"}, f"{int(NOW.timestamp()) - 5} /c/iter_0051500\n")
    scene.say("logs", {"node001": [listing, ("tracker", {}, "51000\n")], "node002": []})
    newest = newest_checkpoint(scene.case)
    assert newest is not None
    assert newest.step == 51000


def test_the_cited_line_is_the_step_line(scene: Scene) -> None:
    """The second look is another text: its line numbers are not those of the file."""
    step = STEP.format(minute=54, step=7)
    parts = [log("/l/stdout.log", "> initializing\n> loading\n" + step), ("again", {"path": "/l/stdout.log"}, step)]
    scene.say("logs", {"node001": parts, "node002": []})
    (finding,) = progress(scene.case).findings
    assert finding.cites[0].text == step.rstrip("\n")
