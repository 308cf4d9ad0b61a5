"""The states of a job with their transitions, the one message, and which tree is called for."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oncall.readings.alert_set import alerts
from oncall.readings.case import Case
from oncall.readings.job_facts import JobFacts, Xid
from oncall.readings.job_state import State, job_state, state_of
from oncall.readings.symptom import PLAYBOOK_OF_ALERT, symptom
from oncall.run.model import Thresholds
from oncall.run.ranks import Place, rank_map
from oncall.signals import vocabulary

from .evidence import NOW, UPTIME_S, Part, Scene, log
from .series import SeriesCase, by_gpu, by_rank

LIMITS = Thresholds()
XID = Xid(79, "node037", 5, None)
STEP = (
    " [2026-03-03 02:54:00] iteration    51300/  100000 | elapsed time per iteration (ms): 4812.3 |"
    " lm loss: 2.104E+00 | grad norm: 0.812 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (JobFacts(), State.UNKNOWN),
        (JobFacts(stalled=False), State.RUNNING),
        (JobFacts(stalled=True), State.STALLED),
        (JobFacts(stalled=True, finished=True), State.ENDED),
        (JobFacts(stalled=False, loss_finite=False), State.NUMERICS),
        (JobFacts(stalled=True, loss_finite=False), State.NUMERICS),
        (JobFacts(stalled=False, xids=(XID,)), State.HARDWARE),
        (JobFacts(stalled=True, xids=(XID,)), State.STALLED),
        (JobFacts(stalled=True, restarts=1, attempt_age_s=60, stepped_since=False), State.RESTARTING),
        (JobFacts(stalled=True, restarts=1, attempt_age_s=1000, stepped_since=False), State.HUMAN),
        (JobFacts(stalled=False, restarts=1, attempt_age_s=600, stepped_since=True), State.RESUMING),
        (JobFacts(stalled=False, restarts=1, attempt_age_s=1900, stepped_since=True), State.RUNNING),
        (JobFacts(stalled=True, restarts=1, attempt_age_s=1500, stepped_since=True), State.HUMAN),
        (JobFacts(stalled=True, restarts=0, attempt_age_s=1900, stepped_since=True), State.STALLED),
        (JobFacts(stalled=True, restarts=3, attempt_age_s=60, stepped_since=False), State.STOP),
        (JobFacts(stalled=False, restarts=3, attempt_age_s=600, stepped_since=True), State.RESUMING),
    ],
)
def test_the_state_follows_from_the_facts(facts: JobFacts, expected: State) -> None:
    assert state_of(facts, LIMITS) is expected


def test_one_message_carries_it_all(tmp_path: Path) -> None:
    """The launcher has just made a first new attempt; the kernel of node037 tells of the GPU."""
    scene = Scene(tmp_path, nodes="node[036-037]")
    gpu = Place(rank=5, host="node037", local_rank=5, gpu_index=5, pci_address="0000:4f:00")
    scene.case.given_ranks = scene.case.ranks = rank_map([gpu], world_size=8, source="the test")
    now = int(NOW.timestamp())
    listing: Part = ("attempts", {}, f"{now - 3600} /l/r_x/attempt_0\n{now - 45} /l/r_x/attempt_1\n")
    files = [log("/l/r_x/attempt_0/0/stdout.log", STEP), log("/l/r_x/attempt_1/0/stdout.log", "starting\n", age_s=1)]
    scene.say("logs", {"node036": [listing, *files], "node037": []})
    kernel = (
        f"<3>[{UPTIME_S - 120:12.6f}] NVRM: Xid (PCI:0000:4f:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"
    )
    scene.say("kernel", {"node036": [("kernel", {}, "")], "node037": [("kernel", {}, kernel)]})
    told = job_state(scene.case, stands=False)
    assert told.state is State.RESTARTING
    assert told.message == (
        "run42 stopped at step 51,300; node037 gpu 5 reported Xid 79 at 02:58; automatic restart in progress (first)"
    )


def running(**more: Any) -> dict[str, Any]:
    """Series of a job whose last step ended 5 s ago."""
    last = NOW.timestamp() - 5
    return {
        "last_step_completed_timestamp_seconds": by_rank([last] * 8),
        "step_time_s": by_rank([12.0] * 8),
        "step_time_s_p50": by_rank([12.0] * 8),
        "loss_is_finite": by_rank([1.0] * 8),
        **more,
    }


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (running(), "hang"),
        (running(loss_is_finite=by_rank([1.0] * 7 + [0.0])), "loss-not-finite"),
        (running(last_step_completed_timestamp_seconds=by_rank([NOW.timestamp() - 100] * 8)), "hang"),
        (running(ckpt_failed_total=by_rank([1.0] * 8)), "checkpoint"),
        (running(xid=by_gpu([0.0] * 7 + [79.0])), "hardware"),
        (running(step_time_s=by_rank([40.0] * 8)), "slowdown"),
        (running(mfu=by_rank([12.0] * 8)), "slowdown"),
    ],
    ids=["nothing", "loss", "stalled", "checkpoint", "xid", "slow", "mfu"],
)
def test_the_metrics_call_for_a_tree(now: dict[str, Any], expected: str, tmp_path: Path) -> None:
    before = {"step_time_s": by_rank([12.0] * 8), "mfu": by_rank([41.0] * 8), "xid": by_gpu([0.0] * 8)}
    chosen = symptom(SeriesCase(tmp_path).tell(now, before))
    assert chosen.playbook == expected


def test_an_xid_of_long_ago_calls_for_nothing(tmp_path: Path) -> None:
    """The gauge keeps its last code until the driver is loaded again."""
    old = {"xid": by_gpu([0.0] * 7 + [79.0]), "step_time_s": by_rank([12.0] * 8)}
    assert symptom(SeriesCase(tmp_path).tell(running(**old), old)).source == "nothing"


def alert(name: str, *, silenced: str = "", inhibited: str = "", **labels: str) -> dict[str, Any]:
    """One alert as Alertmanager 0.2x lists it."""
    suppressed = bool(silenced or inhibited)
    return {
        "annotations": {"summary": f"{name} it is"},
        "endsAt": "2026-03-03T03:04:00.000Z",
        "fingerprint": name,
        "receivers": [{"name": "pager"}],
        "startsAt": (NOW - timedelta(minutes=19)).isoformat().replace("+00:00", "Z"),
        "status": {
            "inhibitedBy": [inhibited] if inhibited else [],
            "silencedBy": [silenced] if silenced else [],
            "state": "suppressed" if suppressed else "active",
        },
        "updatedAt": "2026-03-03T03:00:00.000Z",
        "labels": {"alertname": name, "severity": "page", **labels},
    }


def told_by_alertmanager(folder: Path, *listed: dict[str, Any]) -> Case:
    scene = Scene(folder)
    return scene.say("alerts", {"alerts": [("alerts", {}, json.dumps(listed))]}).case


def test_the_most_pressing_alert_decides(tmp_path: Path) -> None:
    slow, hung = alert("TrainingMfuDegraded", run="run42"), alert("TrainingStepStalled", run="run42")
    chosen = symptom(told_by_alertmanager(tmp_path, slow, hung))
    assert (chosen.playbook, chosen.source) == ("hang", "alerts")
    assert chosen.reason == "TrainingStepStalled fires since 02:41 UTC: TrainingStepStalled it is"


def test_what_is_silenced_or_inhibited_decides_nothing_but_is_shown(tmp_path: Path) -> None:
    case = told_by_alertmanager(
        tmp_path,
        alert("TrainingStepStalled", run="run42", inhibited="TrainingRestartLoop"),
        alert("TrainingMfuDegraded", run="run42", silenced="9d2c6a52"),
        alert("CheckpointSaveFailed", run="run42"),
        alert("TrainingRestartLoop", run="other"),
    )
    assert symptom(case).playbook == "checkpoint"
    rows = {row.name: row for row in alerts(case) or ()}
    assert set(rows) == {"TrainingStepStalled", "TrainingMfuDegraded", "CheckpointSaveFailed"}
    assert rows["TrainingStepStalled"].inhibited_by == ("TrainingRestartLoop",)
    assert rows["TrainingMfuDegraded"].silenced_by == ("9d2c6a52",)
    assert rows["CheckpointSaveFailed"].since == datetime.fromisoformat("2026-03-03T02:41:00+00:00")


def test_an_alert_of_one_of_the_runs_gpus_is_the_runs(tmp_path: Path) -> None:
    own, other = alert("GpuXidError", Hostname="node002", gpu="1"), alert("GpuEccDbe", Hostname="node999", gpu="1")
    case = told_by_alertmanager(tmp_path, own, other)
    assert [row.name for row in alerts(case) or ()] == ["GpuXidError"]
    assert symptom(case).playbook == "hardware"


def test_every_alert_that_calls_for_a_tree_is_a_shipped_rule() -> None:
    rules = Path(vocabulary.__file__).with_name("alerts.yml").read_text()
    assert {name for name in PLAYBOOK_OF_ALERT if f"- alert: {name}\n" not in rules} == set()


def test_a_job_that_the_walk_saw_stand_is_not_told_to_run_perhaps(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert job_state(scene.case, stands=False).message.startswith("run42 may run or not")
    assert job_state(scene.case, stands=True).message.startswith("run42 stopped")
