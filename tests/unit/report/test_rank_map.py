"""The rank map of the run's file may be of another start of the job: the processes say on whose host a rank runs."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from oncall.bundle.store import Bundle
from oncall.rehearse.incidents import incidents
from oncall.report.model import Report
from oncall.report.triage import replay


def replay_with_hosts_changed(folder: Path, *withheld: str) -> Report:
    """The slowdown by the GPU of rank 5, node002 gpu1, with a file that says that node001 has the ranks 4 to 7.

    The processes of the withheld hosts were not seen.
    """
    copy = folder / "bundle"
    shutil.copytree(incidents()["slowdown-by-throttling"].bundle.path, copy)
    told = json.loads((copy / "ranks.json").read_text())
    other = {"node001": "node002", "node002": "node001"}
    places = [{"rank": row["rank"], "host": other[row["host"]], "local_rank": row["rank"] % 4} for row in told["ranks"]]
    (copy / "ranks.json").write_text(json.dumps({**told, "ranks": places}))
    index = copy / "evidence/processes/1/index.jsonl"
    answers = [json.loads(line) for line in index.read_text().splitlines()]
    silent = {"outcome": "timed out", "reason": "timed out", "file": None}
    kept = [answer | (silent if answer["host"] in withheld else {}) for answer in answers]
    index.write_text("".join(json.dumps(answer) + "\n" for answer in kept))
    return asyncio.run(replay(Bundle.open(copy), lambda _: None))


@pytest.mark.parametrize("withheld", [(), ("node001",), ("node002",)], ids=["all seen", "node002 seen", "node001 seen"])
def test_servers_accuse_the_host_that_the_processes_prove(withheld: tuple[str, ...], tmp_path: Path) -> None:
    report = replay_with_hosts_changed(tmp_path, *withheld)
    assert (report.verdict.ranks, report.verdict.hosts) == ((5,), ("node002",))
    assert "which ranks.json contradicts" in report.rank_map
    assert all("node001" not in action.say for action in report.actions)


def test_the_hosts_of_ranks_that_nobody_saw_are_not_taken_from_a_file_that_was_wrong(tmp_path: Path) -> None:
    """Of three nodes one tells, and it contradicts the file: rank 5 may run on either of the others."""
    copy = tmp_path / "recorded"
    shutil.copytree(incidents()["slowdown-by-throttling"].bundle.path, copy)
    (copy / "run.toml").write_text((copy / "run.toml").read_text().replace("node[001-002]", "node[001-003]"))
    told = json.loads((copy / "ranks.json").read_text())
    moved = [{**row, "host": "node003" if row["rank"] < 4 else "node002"} for row in told["ranks"]]
    (copy / "ranks.json").write_text(json.dumps({**told, "ranks": moved}))
    folder = copy / "evidence/processes/1"
    (folder / "asked.json").write_text(json.dumps(["node001", "node002", "node003"]))
    lines = (folder / "index.jsonl").read_text().splitlines()
    (folder / "index.jsonl").write_text("".join(f"{line}\n" for line in lines if '"host":"node001"' in line))
    report = asyncio.run(replay(Bundle.open(copy), lambda _: None))
    assert (report.verdict.ranks, report.verdict.hosts) == ((5,), ())
    assert "Rank 5 (its host is not known)" in report.headline
