"""Another job of the same user runs on the same nodes: nothing of it counts for or against this one."""

import json
import time
from pathlib import Path

import pytest

from oncall.readings.alive import alive
from oncall.readings.process_table import process_table
from oncall.readings.progress import progress
from oncall.readings.stack_set import own_stacks

from .evidence import Part, Scene, log, process, processes

STEP = "step: {step}  loss:  2.1041  grad_norm:  0.8120  memory: 61.21GiB(77.36%)  tps: 1,234  mfu: 38.21%\n"


def of_job(parts: list[Part], *, pid: int = 0, **variables: str) -> list[Part]:
    """Processes with other variables of their launcher, and pids that are so much higher."""
    told = "".join(f"env {name}={value}\n" for name, value in variables.items())
    moved = []
    for name, attributes, text in parts:
        number = int(attributes["pid"])
        words = str(text).replace(f"stat {number} ", f"stat {number + pid} ")
        kept = "\n".join(line for line in words.split("\n") if line.split("=")[0][4:] not in variables)
        moved.append((name, {**attributes, "pid": str(number + pid)}, (told if name == "process" else "") + kept))
    return moved


def young(parts: list[Part]) -> list[Part]:
    """The same, started a moment ago."""
    return [(name, attributes, str(text).replace(" 9000000 0", " 9999000 0")) for name, attributes, text in parts]


def stack(rank: int, pid: int, function: str) -> Part:
    frame = {"name": function, "filename": "train.py", "short_filename": "train.py", "line": 1, "module": None}
    thread = {"pid": pid, "thread_id": 1, "thread_name": "MainThread", "os_thread_id": pid, "active": False}
    thread |= {"owns_gil": False, "frames": [frame], "process_info": None}
    return "stack", {"pid": str(pid), "rank": str(rank), "exit": "0"}, json.dumps([thread])


@pytest.fixture
def two_jobs(tmp_path: Path) -> Scene:
    """Ranks 0 to 7 of this job on both nodes, and on node001 a younger job that has ranks 0 to 7, too."""
    scene = Scene(tmp_path)
    own = [of_job(processes(ranks), TORCHELASTIC_RUN_ID="a") for ranks in (range(4), range(4, 8))]
    other = young(of_job(processes(range(8)), pid=5000, TORCHELASTIC_RUN_ID="b"))
    return scene.say("processes", {"node001": [*own[0], *other], "node002": own[1]})


def test_each_rank_stays_where_this_job_has_it(two_jobs: Scene) -> None:
    assert {rank: place.host for rank, place in two_jobs.case.ranks.places.items()} == {
        rank: f"node{rank // 4 + 1:03}" for rank in range(8)
    }
    judged = alive(two_jobs.case)
    assert judged.verdict == "all-alive"
    assert "8 processes on node001 are of another job and do not count" in judged.reason


@pytest.mark.parametrize(
    "told",
    [{"TORCHELASTIC_RUN_ID": "b"}, {"WORLD_SIZE": "16"}, {"MASTER_PORT": "29501"}],
    ids=["run id", "world size", "port"],
)
def test_what_launchers_tell_of_their_jobs_tells_them_apart(told: dict[str, str], tmp_path: Path) -> None:
    own = {"TORCHELASTIC_RUN_ID": "a"} if "TORCHELASTIC_RUN_ID" in told else {"MASTER_PORT": "29500"}
    here = [of_job(processes(ranks), **own) for ranks in (range(4), range(4, 8))]
    stopped = of_job(process(5, state="T", again="T"), pid=5000, **{**own, **told})
    scene = Scene(tmp_path).say("processes", {"node001": [*here[0], *young(stopped)], "node002": here[1]})
    assert alive(scene.case).verdict == "all-alive"


def test_a_job_that_starts_again_with_fewer_ranks_is_the_same(tmp_path: Path) -> None:
    """An elastic launcher keeps the run's id: the younger process of a rank counts."""
    older = of_job(processes(range(4)), TORCHELASTIC_RUN_ID="a")
    younger = young(of_job(process(0, state="T", again="T", world=4), pid=5000, TORCHELASTIC_RUN_ID="a"))
    scene = Scene(tmp_path).say("processes", {"node001": [*older, *younger], "node002": []})
    assert [finding.ranks for finding in alive(scene.case).findings] == [(0,)]


def test_a_node_that_tells_of_a_job_for_each_process_takes_no_more_than_its_share_of_time(tmp_path: Path) -> None:
    """Ten times as many processes may not take forty times as long."""

    def took(count: int) -> float:
        told = [of_job(process(0), pid=number, TORCHELASTIC_RUN_ID=f"job{number}") for number in range(count)]
        parts = [part for pair in told for part in pair]
        scene = Scene(tmp_path / str(count)).say("processes", {"node001": parts, "node002": []})
        evidence = scene.case.evidence("processes")
        assert evidence is not None
        start = time.process_time()
        assert len(process_table(evidence).processes) == count, "none of them is on more hosts than another"
        return time.process_time() - start

    assert took(2_000) < 40 * max(took(200), 0.005)


def test_of_two_jobs_of_one_size_nothing_tells_which_is_meant(tmp_path: Path) -> None:
    jobs = [
        part for number, name in enumerate("ab") for part in of_job(process(0), pid=number, TORCHELASTIC_RUN_ID=name)
    ]
    scene = Scene(tmp_path).say("processes", {"node001": jobs, "node002": []})
    assert "another job" not in alive(scene.case).reason


def test_a_stack_of_the_other_job_does_not_stand_for_the_rank(two_jobs: Scene) -> None:
    stacks = [stack(rank, 1000 + rank, "ours") for rank in range(4)]
    others = [stack(rank, 6000 + rank, "theirs") for rank in range(8)]
    two_jobs.say("stacks", {"node001": [*stacks, *others], "node002": []})
    seen = own_stacks(two_jobs.case)
    assert seen is not None
    assert {rank: found.frames[0].func for rank, found in seen.stacks.items()} == dict.fromkeys(range(4), "ours")


def test_steps_of_another_job_do_not_make_a_hung_one_run(tmp_path: Path) -> None:
    """Both log to one folder; the other's launcher wrote to its own last, and its steps go on."""
    scene = Scene(tmp_path)
    error_file = "/l/a_x1/attempt_0/0/error.json"
    own = [of_job(processes(ranks), TORCHELASTIC_ERROR_FILE=error_file) for ranks in (range(4), range(4, 8))]
    hung = log("/l/a_x1/attempt_0/0/stdout.log", STEP.format(step=40), rank=0, age_s=900)
    going_on = log("/l/b_y2/attempt_0/0/stdout.log", STEP.format(step=900), age_s=1)
    scene.say("logs", {"node001": [hung, going_on], "node002": []})
    assert progress(scene.case).verdict == "moving"
    scene.say("processes", {"node001": own[0], "node002": own[1]})
    judged = progress(scene.case)
    assert (judged.verdict, "the last step was 40" in judged.reason) == ("stopped", True)
