"""The checkpoint playbook comes to each of its conclusions from folders, logs and savers as nodes see them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oncall.playbook.loader import load

from ..readings.evidence import NOW, Part, Scene, processes
from .walking import concludes, rank_log, step_line

RUN = 'gpu_hour_usd = 2.5\n[paths]\ncheckpoints = "/c"\n'
STARTED = " [2026-03-03 02:{minute:02}:00] saving checkpoint at iteration {step:7} to /c in torch_dist format\n"
DONE = " [2026-03-03 02:{minute:02}:40]   successfully saved checkpoint from iteration {step:7} to /c\n"
NO_SPACE = "OSError: [Errno 28] No space left on device: '/c/iter_0007000/__3_1.distcp'\n"


def space(*, free: float = 0.5, answers: bool = True, read_only: bool = False, exists: bool = True) -> Part:
    total = 10_000_000_000
    rows = ["exit 124"] if not answers else ["kind directory", "exit 0"]
    if not exists:
        rows = ["stat: cannot statx '/c': No such file or directory", "exit 1"]
    elif answers:
        rows += [
            f"blocks nfs-1:/export/c {total} {total * (1 - free):.0f} {total * free:.0f} {100 * (1 - free):.0f}% /c",
            "inodes nfs-1:/export/c 1000000 1000 999000 1% /c",
            f"mount nfs4 {'ro' if read_only else 'rw'},relatime,vers=4.2",
        ]
    return "space", {"name": "checkpoints", "path": "/c"}, "\n".join(rows) + "\n"


def writers(*, state: str = "S", moves: bool = False, grows: bool = False, present: bool = True) -> list[Part]:
    row = "1004 4 {} {} /c/iter_0007000/__4_0.distcp\n"
    parts: list[Part] = []
    for sample in (1, 2):
        size = 900_000 + (5_000 * sample if grows else 0)
        parts.append(("size", {"sample": str(sample), "path": "/c/iter_0007000/"}, f"{size}\t/c/iter_0007000/\n"))
        at = 4096 * (sample if moves else 1)
        parts.append(("writers", {"sample": str(sample)}, row.format(state, at) if present else ""))
    return parts


NOBODY = writers(present=False)


def folder(newest_min: float | None) -> list[Part]:
    """Checkpoints every 20 min, the newest of step 6000 so many minutes ago; None for none that can be seen."""
    if newest_min is None:
        return []
    ages = {6000: newest_min, 5000: newest_min + 20, 4000: newest_min + 40, 3000: newest_min + 60}
    rows = "".join(f"{int(NOW.timestamp() - 60 * age)} /c/iter_{step:07}\n" for step, age in ages.items())
    return [("checkpoints", {"path": "/c"}, rows), ("tracker", {}, "6000\n")]


SAVED = STARTED.format(minute=30, step=6000) + DONE.format(minute=30, step=6000)
OPEN = SAVED + STARTED.format(minute=50, step=7000)


def saves(
    scene: Scene,
    *,
    age_min: float | None = 10,
    told: str = SAVED,
    stderr: str = "",
    seen: Part | None = None,
    savers: list[Part] | None = None,
    unseen: bool = False,
) -> Scene:
    scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4, 8))})
    text = told + step_line(7100)
    parts = [*folder(age_min), rank_log(text), rank_log(stderr, stream="stderr", age_s=30)]
    scene.say("logs", {"node001": parts, "node002": []})
    looks: list[Part] = [seen or space(), *(NOBODY if savers is None else savers)]
    return scene.say("storage", {"node001": [space(), *NOBODY], "node002": "timed out" if unseen else looks})


OVERDUE = 35.0
"""One is due every 20 min."""
MISSED = 45.0
CASES: dict[str, Callable[[Scene], Scene]] = {
    "saved": saves,
    "full": lambda scene: saves(scene, seen=space(free=0.0001)),
    "silent": lambda scene: saves(scene, seen=space(answers=False)),
    "unwritable": lambda scene: saves(scene, seen=space(read_only=True)),
    "save-failed": lambda scene: saves(scene, told=OPEN, stderr=NO_SPACE),
    "saver-stuck": lambda scene: saves(scene, told=OPEN, savers=writers(state="D")),
    "saver-gone": lambda scene: saves(scene, told=OPEN),
    "saving": lambda scene: saves(scene, told=OPEN, savers=writers(moves=True)),
    "overdue": lambda scene: saves(scene, age_min=OVERDUE),
    "late": lambda scene: saves(scene, told=OPEN, age_min=MISSED, savers=writers(grows=True)),
    "stop-full": lambda scene: saves(scene, age_min=MISSED, seen=space(free=0.0001)),
    "stop-silent": lambda scene: saves(scene, age_min=MISSED, seen=space(answers=False)),
    "stop-unwritable": lambda scene: saves(scene, age_min=MISSED, seen=space(exists=False)),
    "stop-failed": lambda scene: saves(scene, age_min=MISSED, told=OPEN, stderr=NO_SPACE),
    "stop-stuck": lambda scene: saves(scene, age_min=MISSED, told=OPEN, savers=writers()),
    "stop-gone": lambda scene: saves(scene, age_min=MISSED, told=OPEN),
    "stop-unexplained": lambda scene: saves(scene, age_min=MISSED),
    "not-enough": lambda scene: saves(scene, age_min=None, told=""),
}


@pytest.mark.parametrize("conclusion", CASES)
def test_each_conclusion_is_reached_from_its_state(conclusion: str, tmp_path: Path) -> None:
    assert concludes(CASES[conclusion](Scene(tmp_path, more=RUN)), "checkpoint").conclusion_id == conclusion


def test_none_is_left_out() -> None:
    assert CASES.keys() == load("checkpoint").conclusions.keys()


TWICE = SAVED + STARTED.format(minute=40, step=7000) + STARTED.format(minute=50, step=8000)
AGAIN = NO_SPACE + NO_SPACE.replace("0007000", "0008000")
UNDER_WAY = OPEN + STARTED.format(minute=59, step=8000)
SECOND_FAILURE: dict[str, tuple[str, Callable[[Scene, float | None], Scene]]] = {
    "both complained of": ("stop-failed", lambda scene, age: saves(scene, age_min=age, told=TWICE, stderr=AGAIN)),
    "both begun, one complained of": (
        "stop-failed",
        lambda scene, age: saves(scene, age_min=age, told=TWICE, stderr=NO_SPACE),
    ),
    "only complaints": ("stop-failed", lambda scene, age: saves(scene, age_min=age, stderr=AGAIN)),
    "not ended, nobody writes": ("stop-gone", lambda scene, age: saves(scene, age_min=age, told=TWICE)),
    "not ended, the second is stuck": (
        "stop-stuck",
        lambda scene, age: saves(scene, age_min=age, told=TWICE, savers=writers(state="D")),
    ),
    "both failed, and the storage is full": (
        "stop-full",
        lambda scene, age: saves(scene, age_min=age, told=TWICE, stderr=AGAIN, seen=space(free=0.0001)),
    ),
}


@pytest.mark.parametrize("age_min", [10, OVERDUE, MISSED, None])
@pytest.mark.parametrize("what", SECOND_FAILURE)
def test_a_second_failure_in_a_row_stops_the_job_whatever_the_age(
    what: str, age_min: float | None, tmp_path: Path
) -> None:
    conclusion, build = SECOND_FAILURE[what]
    assert concludes(build(Scene(tmp_path, more=RUN), age_min), "checkpoint").conclusion_id == conclusion


ONE_FAILURE: dict[str, tuple[str, Callable[[Scene], Scene]]] = {
    "told by every rank": ("save-failed", lambda scene: saves(scene, told=OPEN, stderr=NO_SPACE * 4)),
    "and the next is being written": (
        "save-failed",
        lambda scene: saves(scene, told=UNDER_WAY, stderr=NO_SPACE, savers=writers(moves=True)),
    ),
    "and the next is written where it was not seen": (
        "save-failed",
        lambda scene: saves(scene, told=UNDER_WAY, stderr=NO_SPACE, unseen=True),
    ),
    "before a save that ended": (
        "saved",
        lambda scene: saves(
            scene, told=OPEN + STARTED.format(minute=52, step=8000) + DONE.format(minute=52, step=8000)
        ),
    ),
}


@pytest.mark.parametrize("what", ONE_FAILURE)
def test_one_failure_is_not_taken_for_two(what: str, tmp_path: Path) -> None:
    conclusion, build = ONE_FAILURE[what]
    assert concludes(build(Scene(tmp_path, more=RUN)), "checkpoint").conclusion_id == conclusion


def test_what_stopping_now_loses_is_told(tmp_path: Path) -> None:
    """1,100 steps since step 6000; 8 GPUs for 10 min are 1.33 GPU hours, 3.33 dollars."""
    reason = concludes(saves(Scene(tmp_path, more=RUN)), "checkpoint").steps[0].judgement.reason
    assert "of step 6,000, 10 min old; one is due every 20 min" in reason
    assert "stopping now loses 1,100 steps, 1 GPU hours, $3" in reason


def test_a_mount_that_only_one_node_lacks_is_that_nodes(tmp_path: Path) -> None:
    walked = concludes(CASES["silent"](Scene(tmp_path, more=RUN)), "checkpoint")
    assert walked.findings[-1].hosts == ("node002",)
    assert "on node002 only" in walked.findings[-1].text


def test_a_half_written_checkpoint_is_not_the_last_good_one(tmp_path: Path) -> None:
    scene = saves(Scene(tmp_path, more=RUN), told=OPEN)
    rows = "".join(
        f"{int(NOW.timestamp() - 60 * age)} /c/iter_{step:07}\n"
        for step, age in ((7000, 1), (6000, 21), (5000, 41), (4000, 61))
    )
    scene.say(
        "logs",
        {
            "node001": [("checkpoints", {"path": "/c"}, rows), rank_log(STARTED.format(minute=59, step=7000))],
            "node002": [],
        },
    )
    assert "of step 6,000" in concludes(scene, "checkpoint").steps[0].judgement.reason


@pytest.mark.parametrize("what", ["a node is not seen", "the folder is not named", "nothing answers"])
def test_what_was_not_seen_is_not_sound(what: str, tmp_path: Path) -> None:
    if what == "a node is not seen":
        scene = saves(Scene(tmp_path, more=RUN), unseen=True)
    elif what == "the folder is not named":
        scene = Scene(tmp_path).say("logs", {"node001": [rank_log(step_line(7100))], "node002": []})
    else:
        scene = Scene(tmp_path, more=RUN)
    walked = concludes(scene, "checkpoint")
    assert walked.conclusion_id == "not-enough"
    assert walked.steps[-2].verdict == "unknown"


def test_less_room_than_a_checkpoint_takes_is_full(tmp_path: Path) -> None:
    """2 % of 10 TB are 191 GiB; a checkpoint of 300 GB does not fit."""
    sizes: list[Part] = [
        ("size", {"sample": n, "path": "/c/iter_0006000/"}, "300000000\t/c/iter_0006000/\n") for n in "12"
    ]
    scene = saves(
        Scene(tmp_path, more=RUN),
        seen=space(free=0.02),
        savers=[*sizes, ("writers", {"sample": "1"}, ""), ("writers", {"sample": "2"}, "")],
    )
    assert concludes(scene, "checkpoint").conclusion_id == "full"


def test_a_job_before_its_first_save_is_not_told_to_stop(tmp_path: Path) -> None:
    scene = saves(
        Scene(tmp_path, more=RUN), age_min=None, told=STARTED.format(minute=59, step=1000), savers=writers(moves=True)
    )
    empty: list[Part] = [("checkpoints", {"path": "/c"}, ""), rank_log(STARTED.format(minute=59, step=1000))]
    scene.say("logs", {"node001": empty, "node002": []})
    walked = concludes(scene, "checkpoint")
    assert (walked.steps[0].verdict, walked.conclusion_id) == ("none", "saving")
