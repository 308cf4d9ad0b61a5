"""The restart-loop playbook comes to each of its conclusions from what attempts leave behind."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from oncall.playbook.loader import load

from ..readings.evidence import NOW, UPTIME_S, Part, Scene, log, processes
from .walking import concludes, kernel, rank_log, step_line, xid

LOST = "GPU has fallen off the bus."
PEER = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:4711\n"
OOM = (
    "[{uptime:12.6f}] Out of memory: Killed process 9005 (pt_main_thread) total-vm:1kB, anon-rss:98000000kB,"
    " file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n"
)


def died(error: str, local: int, attempt: int, *, age_s: int) -> Part:
    text = f'Traceback (most recent call last):\n  File "train.py", line 88, in step\n{error}'
    return rank_log(text, attempt=attempt, local=local, stream="stderr", age_s=age_s)


def reached(step: int, attempt: int, *, age_s: int) -> Part:
    return rank_log(step_line(step), attempt=attempt, age_s=age_s)


def loop(
    scene: Scene,
    deaths: Mapping[int, tuple[str, int, str, int]],
    text: str | None = "",
    *,
    attempts: int = 3,
    folders: bool = True,
) -> Scene:
    """Attempts 0 to `attempts`, 300 s apart; `deaths` maps some to (host, local rank, error, last step)."""
    answers: dict[str, list[Part] | str] = {"node001": [], "node002": []}
    stamps = "".join(
        f"{int(NOW.timestamp()) - 300 * (attempts - n)} /l/run42_x/attempt_{n}\n" for n in range(attempts + 1)
    )
    for parts in answers.values():
        assert isinstance(parts, list)
        if folders:
            parts.append(("attempts", {}, stamps))
    for attempt, (host, local, error, step) in deaths.items():
        parts = answers[host]
        assert isinstance(parts, list)
        age_s = 300 * (attempts - attempt) - 100
        parts += [died(error, local, attempt, age_s=age_s), reached(step, attempt, age_s=age_s + 5)]
        parts.append(died(PEER, (local + 1) % 4, attempt, age_s=age_s - 2))
    scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4, 8))})
    scene.say("logs", answers)
    refused: list[Part] = [("refused", {}, "dmesg: read kernel buffer failed: Operation not permitted\n")]
    return scene.say("kernel", {"node001": kernel(), "node002": refused if text is None else kernel(text)})


BAD_BATCH = "ValueError: expected 4096 tokens, found 4095 in shard 17\n"
CUDA = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
PATH = "FileNotFoundError: [Errno 2] No such file or directory: '/data/vocab.json'\n"
SAME_HOST = {n: ("node002", n, CUDA, 100 + 37 * n) for n in range(3)}
DIFFERENT = {0: ("node001", 0, BAD_BATCH, 10), 1: ("node002", 2, CUDA, 55), 2: ("node001", 3, PATH, 80)}

CASES: dict[str, Callable[[Scene], Scene]] = {
    "same-step": lambda scene: loop(scene, dict.fromkeys(range(3), ("node002", 1, BAD_BATCH, 10))),
    "same-host": lambda scene: loop(scene, SAME_HOST),
    "same-error": lambda scene: loop(
        scene, {0: ("node001", 0, PATH, 3), 1: ("node002", 1, PATH, 40), 2: ("node001", 2, PATH, 90)}
    ),
    "hardware-fault": lambda scene: loop(scene, SAME_HOST, xid(79, text=LOST)),
    "program-error": lambda scene: loop(scene, SAME_HOST, xid(31, text="Ch 0000000a, intr 00000000. MMU Fault")),
    "out-of-memory": lambda scene: loop(scene, {}, OOM.format(uptime=UPTIME_S - 200)),
    "different": lambda scene: loop(scene, DIFFERENT),
    "loop-unexplained": lambda scene: loop(scene, {}),
    "restarted": lambda scene: loop(scene, {0: ("node002", 1, CUDA, 10)}, attempts=1),
    "first-start": lambda scene: loop(scene, {}, attempts=0),
    "not-enough": lambda scene: loop(scene, {}, folders=False),
}


@pytest.mark.parametrize("conclusion", CASES)
def test_each_conclusion_is_reached_from_its_state(conclusion: str, tmp_path: Path) -> None:
    assert concludes(CASES[conclusion](Scene(tmp_path)), "restart-loop").conclusion_id == conclusion


def test_none_is_left_out() -> None:
    assert CASES.keys() == load("restart-loop").conclusions.keys()


def test_the_host_that_each_attempt_dies_on_is_named_with_what_it_dies_of(tmp_path: Path) -> None:
    walked = concludes(CASES["same-host"](Scene(tmp_path)), "restart-loop")
    pattern = walked.steps[1].judgement
    assert pattern.findings[0].hosts == ("node002",)
    assert pattern.findings[0].ranks == (4, 5, 6)
    assert "attempt 2: rank 6 on node002 after step 174: torch.AcceleratorError: CUDA error" in pattern.reason


def test_ranks_that_lost_their_peer_are_not_taken_for_the_first_to_die(tmp_path: Path) -> None:
    """Their files are written at the same time; only the words tell who was first."""
    deaths = dict.fromkeys(range(3), ("node002", 1, BAD_BATCH, 10))
    walked = concludes(loop(Scene(tmp_path), deaths), "restart-loop")
    assert walked.steps[1].judgement.findings[0].ranks == (5,)


def test_where_only_victims_speak_nobody_is_blamed(tmp_path: Path) -> None:
    """A rank killed by a signal leaves no traceback; those who lost their peer do, always on the same node."""
    walked = concludes(loop(Scene(tmp_path), {n: ("node002", 1, PEER, 10 + n) for n in range(3)}), "restart-loop")
    assert walked.conclusion_id == "loop-unexplained"
    assert walked.steps[1].verdict == "unknown"


AGENT = (
    "E0303 {at} {agent} torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: {code})"
    " local_rank: {local} (pid: {pid}) of binary: /usr/bin/python3\n"
)


def agent(attempt: int, code: int, local: int = 1, *, late_s: int = 0, pid: int = 77) -> str:
    """What torchrun's agent says as an attempt of `loop` ends: 100 s before the folder of the next is made."""
    ago_s = 300 * (3 - attempt) - 200 - late_s
    at = (NOW - timedelta(seconds=ago_s)).strftime("%H:%M:%S.000000")
    return AGENT.format(at=at, agent=pid, code=code, local=local, pid=9000 + attempt)


def told_by_agents(scene: Scene, *, attempts: int = 3, folders: bool = True, **told: str) -> Scene:
    """Attempts whose ranks leave no words of their own but that they lost a peer; steps differ each time."""
    stamps = "".join(f"{int(NOW.timestamp()) - 300 * (3 - n)} /l/run42_x/attempt_{n}\n" for n in range(attempts + 1))
    answers: dict[str, list[Part] | str] = {}
    for host in ("node001", "node002"):
        parts: list[Part] = [("attempts", {}, stamps)] if folders else []
        for n in range(3 if folders else 0):
            parts.append(died(PEER, 0, n, age_s=300 * (3 - n) - 210))
            parts.append(reached(100 + 37 * n, n, age_s=300 * (3 - n) - 100))
        parts += [log(f"/l/{name}.log", text, age_s=30) for name, text in told.items() if name in {host, "shared"}]
        answers[host] = parts
    scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4, 8))})
    scene.say("logs", answers)
    return scene.say("kernel", {"node001": kernel(), "node002": kernel()})


SEGFAULTS = "".join(agent(n, -11) for n in range(3))


def test_a_rank_that_a_signal_kills_is_told_by_the_agent(tmp_path: Path) -> None:
    """It leaves no word in its own stderr, and those who lost it do."""
    walked = concludes(told_by_agents(Scene(tmp_path), node002=SEGFAULTS), "restart-loop")
    assert (walked.conclusion_id, walked.steps[1].verdict) == ("same-host", "same-host")
    finding = walked.steps[1].judgement.findings[0]
    assert (finding.ranks, finding.hosts) == ((5,), ("node002",))
    assert "rank 5 first, by one error; the last: killed by SIGSEGV (exit code -11)" in finding.text


def test_the_agents_words_alone_tell_a_loop(tmp_path: Path) -> None:
    """A launcher without `--log-dir` makes no folders."""
    walked = concludes(told_by_agents(Scene(tmp_path), folders=False, node002=SEGFAULTS), "restart-loop")
    assert [step.verdict for step in walked.steps[:2]] == ["loop", "same-host"]
    assert walked.findings[-1].ranks == (5,)


def test_who_lost_the_peer_is_not_the_first_to_die_though_an_agent_names_it(tmp_path: Path) -> None:
    """node001's agent tells a second later that its rank 0 ended, whose stderr says that it lost its peer."""
    later = "".join(agent(n, 1, 0, late_s=1, pid=88) for n in range(3))
    walked = concludes(told_by_agents(Scene(tmp_path), node001=later, node002=SEGFAULTS), "restart-loop")
    assert walked.steps[1].judgement.findings[0].ranks == (5,)


@pytest.mark.parametrize("code", [-15, -2, -1])
def test_a_worker_that_was_told_to_end_is_not_to_blame(code: int, tmp_path: Path) -> None:
    told = "".join(agent(n, code) for n in range(3))
    walked = concludes(told_by_agents(Scene(tmp_path), node002=told), "restart-loop")
    assert (walked.conclusion_id, walked.steps[1].verdict) == ("loop-unexplained", "unknown")


def test_a_log_that_every_node_sees_does_not_tell_where(tmp_path: Path) -> None:
    walked = concludes(told_by_agents(Scene(tmp_path), shared=SEGFAULTS), "restart-loop")
    assert walked.steps[1].verdict == "unknown"


def test_a_log_of_several_agents_does_not_tell_where(tmp_path: Path) -> None:
    both = "".join(agent(n, -11) + agent(n, 1, 0, late_s=1, pid=88) for n in range(3))
    assert concludes(told_by_agents(Scene(tmp_path), node001=both), "restart-loop").steps[1].verdict == "unknown"


def test_a_rank_that_aborts_since_it_waited_in_vain_is_a_victim(tmp_path: Path) -> None:
    """node001's rank 0 aborts itself by NCCL's watchdog; rank 5 on node002 had raised its own error."""
    scene = loop(Scene(tmp_path), {n: ("node002", 1, CUDA, 100 + 37 * n) for n in range(3)})
    waited = (
        "[rank0]:[E303 02:50:00.000000000 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation"
        " timeout: WorkNCCL(SeqNum=55, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010"
        " milliseconds before timing out.\n"
    )
    own = scene.case.evidence("logs")
    assert own is not None
    parts = [(p.name, dict(p.attributes), p.data) for p in own.parts("node002") if p.name not in {"clock", "end"}]
    stderr = [rank_log(waited, attempt=n, stream="stderr", age_s=300 * (3 - n) - 200) for n in range(3)]
    aborted = log("/l/torchrun.log", "".join(agent(n, -6, 0) for n in range(3)), age_s=30)
    attempts = [(p.name, dict(p.attributes), p.data) for p in own.parts("node001") if p.name == "attempts"]
    scene.say("logs", {"node001": [*attempts, *stderr, aborted], "node002": parts})
    assert concludes(scene, "restart-loop").steps[1].judgement.findings[0].ranks == (5,)


@pytest.mark.parametrize(("host", "conclusion"), [("node002", "hardware-fault"), ("node001", "same-step")])
def test_one_step_is_the_data_unless_the_host_that_ends_first_is_faulty(
    host: str, conclusion: str, tmp_path: Path
) -> None:
    """A GPU that fails as soon as it is under load ends each attempt after as many steps; another host's ends none."""
    scene = loop(Scene(tmp_path), dict.fromkeys(range(3), ("node002", 1, CUDA, 10)))
    answers: dict[str, list[Part] | str] = {"node001": kernel(), "node002": kernel()}
    scene.say("kernel", {**answers, host: kernel(xid(79, text=LOST))})
    assert concludes(scene, "restart-loop").conclusion_id == conclusion


@pytest.mark.parametrize("conclusion", ["same-step", "same-error", "different"])
def test_attempts_that_end_alike_since_memory_runs_out_say_so(conclusion: str, tmp_path: Path) -> None:
    scene = CASES[conclusion](Scene(tmp_path))
    scene.say("kernel", {"node001": kernel(), "node002": kernel(OOM.format(uptime=UPTIME_S - 200))})
    assert concludes(scene, "restart-loop").conclusion_id == "out-of-memory"


def test_a_loop_ends_with_the_job_stopped() -> None:
    """As many failed attempts as a loop has: the launcher does not mend it, and each costs the steps since."""
    harmless = {"restarted", "first-start", "not-enough"}
    leaves = {name: leaf for name, leaf in load("restart-loop").conclusions.items() if name not in harmless}
    assert {name: leaf.actions[0].command for name, leaf in leaves.items()} == dict.fromkeys(leaves, "stop")


@pytest.mark.parametrize("what", ["no node answers", "no kernel log may be read"])
def test_what_is_withheld_is_not_made_up(what: str, tmp_path: Path) -> None:
    if what == "no node answers":
        walked = concludes(
            Scene(tmp_path).say("logs", {"node001": "timed out", "node002": "timed out"}), "restart-loop"
        )
        assert walked.conclusion_id == "not-enough"
    else:
        walked = concludes(loop(Scene(tmp_path), SAME_HOST, None), "restart-loop")
        assert (walked.conclusion_id, walked.steps[-1].verdict) == ("same-host", "unknown")


def test_a_kill_for_memory_is_seen_though_another_node_tells_nothing(tmp_path: Path) -> None:
    scene = loop(Scene(tmp_path), {})
    scene.say("kernel", {"node001": "timed out", "node002": kernel(OOM.format(uptime=UPTIME_S - 200))})
    assert concludes(scene, "restart-loop").conclusion_id == "out-of-memory"


def test_slow_restarts_are_no_loop(tmp_path: Path) -> None:
    scene = Scene(tmp_path, more="[thresholds]\nrestart_window_s = 200\n")
    assert concludes(loop(scene, SAME_HOST), "restart-loop").conclusion_id == "restarted"
