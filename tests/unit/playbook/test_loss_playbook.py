"""The playbook of a loss that is no number: each conclusion from logs, and none where they do not tell."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from oncall.flight_recorder.model import Grade
from oncall.playbook.loader import load
from oncall.readings.checkpoints import newest_checkpoint
from oncall.report.build import build_report

from ..readings.evidence import NOW, Part, Scene, log, processes
from .test_hang_branches import driver
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
    "faulty-gpu": lambda scene: driver(history(scene, steps(BEFORE)), ecc=2),
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
    "recurring": lambda scene: logs(
        scene,
        rank_log("".join(step_line(n, loss="NAN", skipped=1) if n % 20 == 10 else step_line(n) for n in BEFORE)),
    ),
    "finite": lambda scene: logs(scene, rank_log(steps(BEFORE))),
    "not-enough": lambda scene: logs(scene, log("/l/launcher.log", "torchrun begins\n")),
}


@pytest.mark.parametrize("conclusion", CASES)
def test_each_conclusion_is_reached_from_its_state(conclusion: str, tmp_path: Path) -> None:
    assert concludes(CASES[conclusion](Scene(tmp_path)), "loss-not-finite").conclusion_id == conclusion


@pytest.mark.parametrize("seen", [100, 5])
def test_a_gpu_whose_memory_errs_is_named_where_nothing_else_led_up_to_it(seen: int, tmp_path: Path) -> None:
    scene = driver(history(Scene(tmp_path), steps(range(BAD - seen, BAD))), ecc=2)
    report = build_report(concludes(scene, "loss-not-finite"), bundle="", took_s=0.0)
    assert (report.verdict.conclusion, report.verdict.hosts) == ("faulty-gpu", ("node002",))


def test_data_that_loses_the_loss_twice_is_not_put_on_a_gpu(tmp_path: Path) -> None:
    assert (
        concludes(driver(CASES["data-owner"](Scene(tmp_path)), ecc=2), "loss-not-finite").conclusion_id == "data-owner"
    )


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


TITAN = (
    "[titan] 2026-03-03 02:50:00,000 - root - INFO - step: {step:2}  loss:  2.10412  grad_norm:  0.8123"
    "  memory: 61.38GiB(77.42%)  tps: 3,412  tflops: 413.9  mfu: 41.85%\n"
)
RAISED = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n{words}\n'
STOPPED: dict[str, tuple[str, Callable[[int], str]]] = {
    "torchtitan": (
        "RuntimeError: Loss is not finite (global_avg_loss=nan) at step {step}. Stopping training.",
        lambda step: TITAN.format(step=step),
    ),
    "torchtitan, one step in ten": (
        "RuntimeError: Loss is not finite (global_avg_loss=nan) at step {step}. Stopping training.",
        lambda step: TITAN.format(step=step) if step % 10 == 0 else "",
    ),
    "Megatron's rerun machine": (
        "RuntimeError: Rank 6, node n2, device 2, iteration {step}: Unexpected result nan"
        " (message='found NaN in local forward loss calculation')",
        step_line,
    ),
    "Megatron before it": (
        "AssertionError: Rank 6: found NaN in local forward loss calculation. Device: 2, node: n2",
        step_line,
    ),
    "DeepSpeed": (
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        lambda step: f"steps: {step} loss: 2.7713 iter time (s): 3.980 samples/sec: 8.040\n",
    ),
}
"""The words in which a framework says that it stops, with the lines of its steps before."""


def stops(framework: str, step: int, attempt: int, *, folder: str = "run42_x", age_s: int = 60) -> list[Part]:
    """An attempt that came from 171 steps before and stopped over the loss at this step, which it does not log."""
    words, tell = STOPPED[framework]
    place = f"/l/{folder}/attempt_{attempt}/0"
    told = "".join(tell(n) for n in range(step - 171, step))
    return [
        log(f"{place}/stdout.log", told, age_s=age_s),
        log(f"{place}/stderr.log", RAISED.format(words=words.format(step=step)), age_s=age_s),
    ]


@pytest.mark.parametrize("framework", STOPPED)
def test_frameworks_that_stop_by_themselves_tell_the_same_data_from_other(framework: str, tmp_path: Path) -> None:
    for second, conclusion in ((1371, "data-owner"), (901, "numerics-owner")):
        (folder := tmp_path / conclusion).mkdir()
        scene = logs(Scene(folder), *stops(framework, 1371, 0, age_s=4000), *stops(framework, second, 1))
        scene.say("processes", {"node001": [], "node002": []})
        walked = concludes(scene, "loss-not-finite")
        assert walked.conclusion_id == conclusion
        assert f"at step {second}" in walked.findings[0].text


@pytest.mark.parametrize(
    ("older", "newer", "conclusion"),
    [("run42_a1b2c3d4", "run42_z_y8x7w6", "data-owner"), ("other_a1b2c3d4", "run42_z9y8x7w6", "sudden")],
)
def test_a_launch_of_the_same_run_that_stopped_at_the_same_step_counts(
    older: str, newer: str, conclusion: str, tmp_path: Path
) -> None:
    """An operator's new launch gets a folder of its own; that of another run tells nothing of this one's data."""
    first = stops("torchtitan", 1371, 0, folder=older, age_s=9000)
    scene = logs(Scene(tmp_path), *first, *stops("torchtitan", 1371, 0, folder=newer))
    assert concludes(scene, "loss-not-finite").conclusion_id == conclusion


def test_words_of_a_step_that_a_start_never_came_to_are_not_its_own(tmp_path: Path) -> None:
    """Its step lines end at 900, one each step; the words were left in a log that is appended to."""
    words, tell = STOPPED["torchtitan"]
    left = log("/l/run42_x/attempt_1/0/stderr.log", RAISED.format(words=words.format(step=1371)))
    came = log("/l/run42_x/attempt_1/0/stdout.log", "".join(tell(n) for n in range(730, 901)), age_s=60)
    scene = logs(Scene(tmp_path), *stops("torchtitan", 1371, 0, age_s=4000), left, came)
    walked = concludes(scene, "loss-not-finite")
    assert (walked.conclusion_id, walked.findings[0].sequence) == ("numerics-owner", 901)


def test_a_launcher_that_has_started_it_again_has_not_mended_it(tmp_path: Path) -> None:
    """Attempt 2 has come from step 1200 to 1300: at 1371 it will meet what ended attempts 0 and 1."""
    third = log("/l/run42_x/attempt_2/0/stdout.log", "".join(TITAN.format(step=n) for n in range(1200, 1301)), age_s=1)
    scene = logs(Scene(tmp_path), *stops("torchtitan", 1371, 0, age_s=4000), *stops("torchtitan", 1371, 1), third)
    walked = concludes(scene, "loss-not-finite")
    assert (walked.conclusion_id, walked.steps[1].verdict) == ("data-owner", "going-on")
    assert "in attempt 1; attempt 2 is at step 1300" in walked.findings[0].text


def test_an_attempt_that_got_past_the_step_is_sound(tmp_path: Path) -> None:
    second = log("/l/run42_x/attempt_1/0/stdout.log", "".join(TITAN.format(step=n) for n in range(1300, 1400)), age_s=1)
    scene = logs(Scene(tmp_path), *stops("torchtitan", 1371, 0, age_s=4000), second)
    assert concludes(scene, "loss-not-finite").conclusion_id == "finite"


def test_a_step_that_recovered_is_no_lost_loss(tmp_path: Path) -> None:
    """One NaN at step 1300, and 99 finite steps after it: the weights are sound."""
    text = steps(range(1200, 1300)) + step_line(1300, loss="NAN", nan=1, skipped=1) + steps(range(1301, 1400))
    walked = concludes(logs(Scene(tmp_path), rank_log(text)), "loss-not-finite")
    assert walked.conclusion_id == "finite"
    assert walked.findings[0].text == "the loss was not finite at step 1300, and has been for 99 steps since"


def test_the_first_step_of_those_that_stayed_lost_is_told(tmp_path: Path) -> None:
    text = steps(range(6900, 6950)) + lost(6950) + steps(range(6951, BAD)) + lost() + lost(BAD + 1)
    walked = concludes(logs(Scene(tmp_path), rank_log(text)), "loss-not-finite")
    assert (walked.findings[0].sequence, walked.findings[0].grade) == (BAD, Grade.SURE)


def test_one_skipped_step_at_the_very_end_is_not_sure_yet(tmp_path: Path) -> None:
    text = steps(BEFORE) + step_line(BAD, loss="INF", norm="inf", skipped=1)
    walked = concludes(logs(Scene(tmp_path), rank_log(text)), "loss-not-finite")
    assert walked.findings[0].grade is Grade.LIKELY
    assert "the last one seen; the optimizer skipped it" in walked.findings[0].text


def test_skipped_steps_that_print_no_loss_are_no_lost_loss(tmp_path: Path) -> None:
    """Megatron leaves the loss out of the line of a skipped iteration."""
    line = step_line(BAD, skipped=1, scale=32768.0).replace(" lm loss: 2.104E+00 |", "")
    walked = concludes(logs(Scene(tmp_path), rank_log(steps(BEFORE) + line)), "loss-not-finite")
    assert walked.conclusion_id == "finite"


def test_deepspeed_tells_its_scale_where_it_overflows(tmp_path: Path) -> None:
    words, tell = STOPPED["DeepSpeed"]
    scales = [65536, 32768, 16384, 8192, 4096]
    overflow = "[2026-01-12 21:03:21,000] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0"
    falls = "".join(f"{overflow} Skipping step. Attempted loss scale: {s}, reducing to {s // 2}\n" for s in scales)
    told = rank_log("".join(tell(n) for n in range(1360, 1371)) + falls)
    scene = logs(Scene(tmp_path), told, rank_log(RAISED.format(words=words), stream="stderr"))
    walked = concludes(scene, "loss-not-finite")
    assert walked.conclusion_id == "scale-collapse"
    assert "from 65536 to 4096 in 5 steps that overflowed" in walked.findings[-1].text


@pytest.mark.parametrize("line", ["{'loss': 0.0, 'grad_norm': nan", "{'loss': 'nan', 'grad_norm': 'inf'"])
def test_hugging_face_hides_its_loss_and_names_the_step_in_the_bar(line: str, tmp_path: Path) -> None:
    """Both lines as transformers 4.x and 5.x print them; the step stands in the bar alone."""
    bar = "  8%|8         | {step}/5150 [0:21:40<4:09:12,  3.16s/it]  "
    sound = "{{'loss': 2.99, 'grad_norm': 1.31, 'learning_rate': 4.5e-05, 'epoch': 0.08}}\n"
    text = "".join(bar.format(step=n) + sound.format() for n in range(300, 412))
    text += bar.format(step=412) + line + ", 'learning_rate': 4.5e-05, 'epoch': 0.1}\n"
    walked = concludes(logs(Scene(tmp_path), rank_log(text)), "loss-not-finite")
    assert (walked.steps[0].verdict, walked.findings[0].sequence) == ("not-finite", 412)


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


def test_a_rerun_machine_that_ends_the_program_without_a_step_line_is_heard(tmp_path: Path) -> None:
    """It runs the step again to tell chance from the data, and ends by an exit code; the step is never logged."""
    rerun = (
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 6 at iteration #7001 invocation #1"
        " (message='found NaN in local forward loss calculation')\n"
        "[exiting program after receiving SIGTERM.] datetime: 2026-03-03 02:59:00 \n"
    )
    walked = concludes(logs(Scene(tmp_path), rank_log(steps(BEFORE) + rerun)), "loss-not-finite")
    assert (walked.findings[0].sequence, walked.findings[0].ranks) == (BAD, (6,))
    assert walked.steps[1].verdict == "going-on"


def test_a_result_that_was_right_when_run_again_is_no_lost_loss(tmp_path: Path) -> None:
    rerun = (
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 6 at iteration #7001 invocation #1"
        " (message='found NaN in local forward loss calculation')\n"
    )
    text = steps(BEFORE) + rerun + steps(range(BAD, BAD + 3))
    assert concludes(logs(Scene(tmp_path), rank_log(text)), "loss-not-finite").conclusion_id == "finite"


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


@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ({7000: 60}, "before (none that was seen lies so far back: the oldest is of step 7,000) and skip"),
        ({}, "before (no checkpoint was seen) and skip"),
        ({7000: 60, 6800: 1300}, "before (step 6,800) and skip"),
    ],
)
def test_an_action_says_which_checkpoint_or_that_there_is_none(
    folder: dict[int, int], words: str, tmp_path: Path
) -> None:
    rows = "".join(f"{int(NOW.timestamp()) - age} /c/iter_{step}\n" for step, age in folder.items())
    scene = logs(Scene(tmp_path), rank_log(steps(BEFORE) + lost()), ("checkpoints", {"path": "/c"}, rows))
    report = build_report(concludes(scene, "loss-not-finite"), bundle="", took_s=0.0)
    assert words in report.actions[1].say


def test_without_a_step_no_checkpoint_is_known_to_be_good(tmp_path: Path) -> None:
    raised = RAISED.format(words="RuntimeError: Train loss contains a NaN.")
    listing: Part = ("checkpoints", {"path": "/c"}, f"{int(NOW.timestamp()) - 60} /c/iter_7000\n")
    walked = concludes(logs(Scene(tmp_path), rank_log(raised, stream="stderr"), listing), "loss-not-finite")
    assert walked.steps[0].verdict == "not-finite"
    assert newest_checkpoint(walked.case) is None
    assert "no log tells at which step" in build_report(walked, bundle="", took_s=0.0).actions[1].say


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
