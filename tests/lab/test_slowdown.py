"""`oncall run42 --triage` on slowed runs with a real Prometheus: the right leaf; no wrong one where a signal lacks."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from oncall.bundle.evidence import NodeAnswer, Part, join_part, split_parts
from oncall.bundle.store import Bundle
from oncall.probes.metric_questions import ASKED
from oncall.report.model import Report
from oncall.report.triage import replay

from .driving import replay_offline, triage, without_times
from .history import History, of_rank, rank_map, serve
from .slowdowns import SLOWDOWNS, straggle

pytestmark = pytest.mark.lab

UNDECIDED = {"unexplained-straggler", "not-enough"}
"""Where a walk may end that lacks a signal, beside the right leaf."""

RUN_FILE = """
nodes = "node[001-002]"
[reach]
via = "local"
[processes]
match = "no such program"
[ranks]
file = "ranks.json"
[prometheus]
url = "{url}"
[actions]
exclude = "drain {{host}}"
"""


def prepare(folder: Path, url: str, *, more: str = "") -> Path:
    """A run file and its rank map."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run42.toml").write_text(RUN_FILE.format(url=url) + more)
    (folder / "ranks.json").write_text(rank_map())
    return folder


@pytest.fixture(scope="module", params=SLOWDOWNS)
def slowed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, dict[str, Any]]:
    """(name, folder, answer) of each slowdown, triaged once."""
    folder = tmp_path_factory.mktemp(str(request.param))
    history = History()
    SLOWDOWNS[request.param].happen(history)
    with serve(history, folder / "prometheus") as url:
        code, answer = triage(prepare(folder, url), "--playbook", "slowdown")
    assert code == SLOWDOWNS[request.param].exit_code, answer["headline"]
    return request.param, folder, answer


def test_the_right_leaf_is_reached(slowed: tuple[str, Path, dict[str, Any]]) -> None:
    name, folder, answer = slowed
    verdict, expected = answer["verdict"], SLOWDOWNS[name]
    assert (verdict["conclusion"], verdict["kind"]) == (expected.conclusion, expected.kind), answer["headline"]
    assert (tuple(verdict["ranks"]), tuple(verdict["hosts"])) == (expected.ranks, expected.hosts)
    _, again = replay_offline(folder / "bundle")
    assert without_times(again) == without_times(answer)


def test_without_any_one_signal_no_wrong_leaf_is_reached(
    slowed: tuple[str, Path, dict[str, Any]], tmp_path: Path
) -> None:
    """As if no exporter had it: Prometheus' answer holds no series. Another leaf needs a step that says unknown."""
    name, folder, _ = slowed
    expected = SLOWDOWNS[name].conclusion
    for signal in ASKED:
        shutil.copytree(folder / "bundle", tmp_path / signal)
        empty_answers(tmp_path / signal, signal)
        report = replayed(tmp_path / signal)
        verdicts = {step.verdict for step in report.steps}
        told = f"without {signal}: {report.headline}"
        assert report.verdict.conclusion in {expected, *UNDECIDED}, told
        assert report.verdict.conclusion == expected or "unknown" in verdicts, told


def replayed(bundle: Path) -> Report:
    return asyncio.run(replay(Bundle.open(bundle), lambda _: None))


def empty_answers(bundle: Path, signal: str) -> None:
    """Take every series of a signal out of a bundle's answers."""
    for probe in ("metrics", "baseline"):
        evidence = Bundle.open(bundle).evidence(probe)
        assert evidence is not None
        answer = evidence.answers.get(signal)
        if answer is not None and answer.file is not None:
            path = bundle / answer.file
            path.write_bytes(
                b"".join(_emptied(part, answer) for part in split_parts(path.read_bytes(), answer.boundary))
            )


def _emptied(part: Part, answer: NodeAnswer) -> bytes:
    told = msgspec.json.decode(part.data)
    told["data"]["result"] = []
    return join_part(Part(part.name, part.attributes, msgspec.json.encode(told)), answer.boundary)


@pytest.mark.parametrize("way", ["stuck", "ended", "old"])
def test_a_stale_exporter_is_called_stale(way: str, tmp_path: Path) -> None:
    """On node002 it shows an old step, has gone, or its last samples are old but still within Prometheus' look-back."""
    history = History()
    straggle(history)
    for rank in range(4, 8):
        labels = of_rank(rank)
        if way == "stuck":
            stopped = history.series[("train_last_step_completed_timestamp_seconds", tuple(sorted(labels.items())))](
                -900
            )
            history.put_exact("last_step_completed_timestamp_seconds", labels, stopped, since=-900)
        else:
            for name, key in list(history.series):
                if dict(key).get("rank") == str(rank):
                    history.series[name, key] = _until(history.series[name, key], -900 if way == "ended" else -200)
    with serve(history, tmp_path / "prometheus") as url:
        _, answer = triage(prepare(tmp_path, url), "--playbook", "slowdown")
    reasons = " ".join(step["reason"] for step in answer["steps"] if step["verdict"] == "unknown")
    assert "stale for ranks 4-7" in reasons, json.dumps(answer["steps"], indent=1)
    assert answer["verdict"]["conclusion"] in UNDECIDED


def _until(value: Any, at: float) -> Any:
    return lambda when: value(when) if when <= at else float("nan")


def test_labels_that_name_nobody_are_shown(tmp_path: Path) -> None:
    """The GPUs' series come with labels that no rank map knows."""
    history = History()
    SLOWDOWNS["throttled"].happen(history)
    strange = {key: value for key, value in history.series.items() if key[0].startswith("DCGM")}
    for (name, labels), value in strange.items():
        del history.series[name, labels]
        told = dict(labels)
        kept = {"kubernetes_pod": f"dcgm-{told['UUID'][-18:-10]}", "gpu": told["gpu"], "job": "dcgm"}
        history.series[name, tuple(sorted(kept.items()))] = value
    with serve(history, tmp_path / "prometheus") as url:
        _, answer = triage(prepare(tmp_path, url), "--playbook", "slowdown")
    reasons = {step["step"]: step["reason"] for step in answer["steps"]}
    assert 'no series fits the ranks or hosts of this run; labels seen: gpu="' in reasons["throttled"]
    assert 'kubernetes_pod="dcgm-' in reasons["throttled"]
    assert answer["verdict"]["conclusion"] == "unexplained-straggler"
