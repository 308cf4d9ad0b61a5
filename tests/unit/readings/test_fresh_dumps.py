"""Dumps of an earlier hang lie in the same folder: they tell nothing of this one."""

import asyncio
import json
import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

from oncall.bundle.store import Bundle
from oncall.rehearse.incidents import incidents
from oncall.report.model import Report
from oncall.report.triage import replay


def replay_with_old_dumps(tmp_path: Path, ranks: set[int]) -> Report:
    """The hang of rank 5, with the dumps of some ranks two hours older than they were."""
    copy = tmp_path / "bundle"
    shutil.copytree(incidents()["hang-by-code"].bundle.path, copy)
    for path in (copy / "evidence/flight_recorder").rglob("*.out"):
        raw = path.read_bytes()
        for rank in ranks:
            pattern = rb"(\tpath=[^\t]*rank_%d\t[^\n]*mtime=)(\d+)" % rank
            raw = re.sub(pattern, lambda found: found[1] + str(int(found[2]) - 7200).encode(), raw)
        path.write_bytes(raw)
    return asyncio.run(replay(Bundle.open(copy), lambda _: None))


def replay_fetched_later(tmp_path: Path, later_s: int) -> Report:
    """The same hang, its dumps fetched so much later than everything else was asked."""
    copy = tmp_path / "bundle"
    shutil.copytree(incidents()["hang-by-code"].bundle.path, copy)
    for index in (copy / "evidence/flight_recorder").rglob("index.jsonl"):
        answers = [json.loads(line) for line in index.read_text().splitlines()]
        for answer in answers:
            answer["started"] = str(datetime.fromisoformat(answer["started"]) + timedelta(seconds=later_s))
        index.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    for path in (copy / "evidence/flight_recorder").rglob("*.out"):
        clock = re.compile(rb"(\tclock\n)(\d+)")
        path.write_bytes(clock.sub(lambda found: found[1] + str(int(found[2]) + later_s).encode(), path.read_bytes()))
    return asyncio.run(replay(Bundle.open(copy), lambda _: None))


def step_reason(report: Report) -> str:
    return next(step.reason for step in report.steps if step.step == "collective")


def test_all_fresh_names_the_culprit(tmp_path: Path) -> None:
    assert replay_with_old_dumps(tmp_path, set()).verdict.ranks == (5,)


def test_dumps_that_were_waited_for_are_not_old(tmp_path: Path) -> None:
    report = replay_fetched_later(tmp_path, 3600)
    assert {step.step: step.verdict for step in report.steps}["collective"] != "unknown", step_reason(report)
    assert report.verdict.ranks == (5,)


def test_an_old_dump_of_the_culprit_accuses_it_of_nothing_it_issued_then(tmp_path: Path) -> None:
    report = replay_with_old_dumps(tmp_path, {5})
    assert "those of ranks 5 are of an earlier hang" in step_reason(report)
    assert report.verdict.kind != "extra_collective"


def test_old_dumps_alone_are_no_evidence(tmp_path: Path) -> None:
    report = replay_with_old_dumps(tmp_path, set(range(8)))
    assert "older than the last step or than their processes" in step_reason(report)
