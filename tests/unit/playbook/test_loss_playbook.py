"""The playbook of a loss that is no number: each conclusion from logs, and none where they do not tell."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from oncall.playbook.loader import load
from oncall.readings.checkpoints import newest_checkpoint
from oncall.report.build import build_report

from ..readings.evidence import NOW, Part, Scene, log, processes
from .walking import concludes, rank_log, step_line

BAD = 7001
LOGITS = " max attention logit: {:.2f} |\n"


def steps(
    numbers: Iterable[int],
    norm: Callable[[int], float] = lambda step: 0.8,
    scale: Callable[[int], float] = lambda step: 1.0,
) -> str:
    return "".join(step_line(n, norm=f"{norm(n):.3f}", scale=scale(n)) for n in numbers)


def lost(step: int = BAD, *, samples: int | None = None) -> str:
    return step_line(step, loss="NAN", norm="nan", nan=1, samples=samples)


def logs(scene: Scene, *parts: Part) -> Scene:
    scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4, 8))})
    return scene.say("logs", {"node001": list(parts), "node002": []})


def history(scene: Scene, text: str) -> Scene:
    return logs(scene, rank_log(text + lost() + lost(BAD + 1)))


BEFORE = range(BAD - 100, BAD)
CASES: dict[str, Callable[[Scene], Scene]] = {
    "diverging": lambda scene: history(
        scene, steps(BEFORE, norm=lambda n: 0.8 if n < BAD - 15 else 0.8 * 1.3 ** (n - BAD + 15))
    ),
    "scale-collapse": lambda scene: history(scene, steps(BEFORE, scale=lambda n: 65536.0 / 2 ** max(0, n - BAD + 6))),
    "sudden": lambda scene: history(scene, steps(BEFORE)),
    "attention-logits": lambda scene: history(
        scene,
        "".join(
            step_line(n).removesuffix("\n") + LOGITS.format(20 if n < BAD - 15 else 20 + 10 * (n - BAD + 15))
            for n in BEFORE
        ),
    ),
    "unexplained": lambda scene: history(scene, steps(range(BAD - 5, BAD))),
    "data-owner": lambda scene: logs(
        scene,
        rank_log(steps(BEFORE) + lost(), attempt=0, age_s=4000),
        rank_log(steps(BEFORE) + lost(), attempt=1),
    ),
    "numerics-owner": lambda scene: logs(
        scene,
        rank_log(steps(BEFORE) + lost(), attempt=0, age_s=4000),
        rank_log(steps(range(7200, 7300)) + lost(7300), attempt=1),
    ),
    "finite": lambda scene: logs(scene, rank_log(steps(BEFORE))),
    "not-enough": lambda scene: logs(scene, log("/l/launcher.log", "torchrun begins\n")),
}


@pytest.mark.parametrize("conclusion", CASES)
def test_each_conclusion_is_reached_from_its_state(conclusion: str, tmp_path: Path) -> None:
    assert concludes(CASES[conclusion](Scene(tmp_path)), "loss-not-finite").conclusion_id == conclusion


def test_none_is_left_out() -> None:
    assert CASES.keys() == load("loss-not-finite").conclusions.keys()


def test_no_node_that_answers_is_unknown(tmp_path: Path) -> None:
    scene = Scene(tmp_path).say("logs", {"node001": "timed out", "node002": "timed out"})
    walked = concludes(scene, "loss-not-finite")
    assert walked.conclusion_id == "not-enough"
    assert "0 of 2 nodes answered" in walked.steps[0].judgement.reason


def test_a_skipped_range_shifts_steps_but_not_samples(tmp_path: Path) -> None:
    """The same batch comes 100 steps earlier once 100 steps of data are skipped: samples tell, steps would not."""
    scene = logs(
        Scene(tmp_path),
        rank_log(steps(BEFORE) + lost(7001, samples=3_584_512), attempt=0, age_s=4000),
        rank_log(steps(range(6801, 6901)) + lost(6901, samples=3_584_512), attempt=1),
    )
    assert concludes(scene, "loss-not-finite").conclusion_id == "data-owner"


def test_the_framework_that_stopped_by_itself_is_told_from_one_that_goes_on(tmp_path: Path) -> None:
    raised = log("/l/run42_x/attempt_0/3/stderr.log", "RuntimeError: Loss is not finite: nan at step 7001\n")
    (tmp_path / "stopped").mkdir()
    (tmp_path / "goes-on").mkdir()
    stopped = concludes(logs(Scene(tmp_path / "stopped"), rank_log(steps(BEFORE)), raised), "loss-not-finite")
    goes_on = concludes(history(Scene(tmp_path / "goes-on"), steps(BEFORE)), "loss-not-finite")
    assert stopped.steps[1].verdict == "stopped"
    assert goes_on.steps[1].verdict == "going-on"


def test_an_error_about_nan_in_something_else_is_no_lost_loss(tmp_path: Path) -> None:
    raised = log("/l/run42_x/attempt_0/3/stderr.log", "ValueError: could not convert string to float: 'nan x'\n")
    assert (
        concludes(logs(Scene(tmp_path), rank_log(steps(BEFORE)), raised), "loss-not-finite").conclusion_id == "finite"
    )


def test_the_rank_that_met_it_first_is_named(tmp_path: Path) -> None:
    rerun = (
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 6 at iteration #7001 invocation #1"
        " (message='found NaN in local forward loss calculation')\n"
    )
    walked = concludes(history(Scene(tmp_path), steps(BEFORE) + rerun), "loss-not-finite")
    assert walked.findings[0].ranks == (6,)
    assert walked.findings[0].hosts == ("node002",)


def test_a_checkpoint_too_near_the_loss_is_not_gone_back_to(tmp_path: Path) -> None:
    folders = "".join(
        f"{int(NOW.timestamp()) - age} /c/iter_{step}\n" for step, age in ((7000, 60), (6900, 700), (6800, 1300))
    )
    scene = history(Scene(tmp_path), steps(BEFORE))
    listing: Part = ("checkpoints", {"path": "/c"}, folders)
    scene = logs(scene, rank_log(steps(BEFORE) + lost()), listing)
    found = newest_checkpoint(concludes(scene, "loss-not-finite").case)
    assert found is not None
    assert found.step == 6900


RESTART = '[actions]\nrestart = "sbatch --export=RESUME_STEP={step} train.sbatch"\n'


def test_no_command_resumes_from_a_checkpoint_that_may_be_ruined(tmp_path: Path) -> None:
    for name in ("near", "far"):
        (tmp_path / name).mkdir()
    ruined: Part = ("checkpoints", {"path": "/c"}, f"{int(NOW.timestamp()) - 60} /c/iter_7000\n")
    good: Part = ("checkpoints", {"path": "/c"}, f"{int(NOW.timestamp()) - 6000} /c/iter_6000\n")
    text = rank_log(steps(BEFORE) + lost())
    near = concludes(logs(Scene(tmp_path / "near", more=RESTART), text, ruined), "loss-not-finite")
    far = concludes(logs(Scene(tmp_path / "far", more=RESTART), text, good), "loss-not-finite")
    assert [each.command for each in build_report(near, bundle="", took_s=0.0).actions if each.target] == []
    commands = [each.command for each in build_report(far, bundle="", took_s=0.0).actions if each.target]
    assert commands == ["sbatch --export=RESUME_STEP=6000 train.sbatch"]
