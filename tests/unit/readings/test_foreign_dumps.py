"""Dumps of another job lie where this one's belong, as young and under the same names: they tell nothing of it."""

import asyncio
import gzip
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncall.bundle.evidence import Part, join_part, split_parts
from oncall.bundle.store import Bundle
from oncall.rehearse.incidents import incidents
from oncall.report.model import Report
from oncall.report.triage import replay

Recorded = dict[str, Any]


class Incident:
    """A copy of a recorded incident, whose answers can be rewritten."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        shutil.copytree(incidents()[name].bundle.path, self.path)

    def rewrite(self, probe: str, change: Callable[[Part], Part]) -> None:
        evidence = Bundle.open(self.path).evidence(probe)
        assert evidence is not None
        for answer in evidence.answers.values():
            path = self.path / str(answer.file)
            parts = split_parts(path.read_bytes(), answer.boundary)
            path.write_bytes(b"".join(join_part(change(part), answer.boundary) for part in parts))

    def rewrite_dumps(self, change: Callable[[int, Recorded], Recorded]) -> None:
        """Change what the recorders wrote; path and time of each file stay."""

        def changed(part: Part) -> Part:
            if part.name != "dump":
                return part
            rank = int(part.attributes["path"].rpartition("_")[2])
            content = change(rank, pickle.loads(gzip.decompress(part.data)))
            return Part(part.name, part.attributes, gzip.compress(pickle.dumps(content, protocol=2)))

        self.rewrite("flight_recorder", changed)

    def replay(self) -> Report:
        return asyncio.run(replay(Bundle.open(self.path), lambda _: None))


@pytest.fixture
def by_code(tmp_path: Path) -> Incident:
    """Rank 5 took another branch, as its dump alone can tell; eight ranks, steps of 80 ms, the last one 4 s ago."""
    return Incident(tmp_path, "hang-by-code")


def moved(dump: Recorded, seconds: float) -> Recorded:
    """A dump whose operations were issued so much earlier."""
    shift_ns = int(seconds * 1e9)
    entries = [{**each, "time_created_ns": each["time_created_ns"] - shift_ns} for each in dump["entries"]]
    return {**dump, "entries": entries}


def of_world(dump: Recorded, size: int) -> Recorded:
    group = {"name": "0", "desc": "default_pg", "ranks": str(list(range(size)))}
    return {**dump, "pg_config": {"0": group}}


def asked(report: Report) -> tuple[str, str]:
    return next((step.verdict, step.reason) for step in report.steps if step.step == "collective")


def assert_set_aside(report: Report, why: str) -> None:
    verdict, reason = asked(report)
    assert verdict == "unknown", reason
    assert "of another job" in reason
    assert why in reason
    assert report.verdict.kind != "extra_collective"


def test_the_dumps_of_this_job_name_the_culprit(by_code: Incident) -> None:
    report = by_code.replay()
    assert (report.verdict.kind, report.verdict.ranks) == ("extra_collective", (5,))


def test_operations_from_before_the_processes_began_are_of_another_job(by_code: Incident) -> None:
    by_code.rewrite_dumps(lambda _, dump: moved(dump, 600.0))
    assert_set_aside(by_code.replay(), "and the rank's process began at")


def test_the_dumps_of_another_incident_do_not_tell_of_this_one(by_code: Incident, tmp_path: Path) -> None:
    """The job of this incident hangs in a data loader, that of the dumps in a branch."""
    loader = Incident(tmp_path, "hang-by-data")
    others: dict[int, Recorded] = {}
    by_code.rewrite_dumps(others.setdefault)
    loader.rewrite_dumps(lambda rank, _: others[rank])
    report = loader.replay()
    assert_set_aside(report, "and the rank's process began at")
    assert (report.verdict.kind, report.verdict.ranks) == ("data_stall", (5,))


@pytest.mark.parametrize("size", [4, 16])
def test_another_number_of_ranks_is_another_job(size: int, by_code: Incident) -> None:
    by_code.rewrite_dumps(lambda _, dump: of_world(dump, size))
    assert_set_aside(by_code.replay(), "the job 8" if size < 8 else "the job has 8 ranks")


def test_counts_that_a_ranks_own_log_rules_out_are_of_another_job(by_code: Incident) -> None:
    """Each log tells of work 5,000; the recorders had come to 79."""
    line = (
        "[rank{rank}]:[E1129 16:58:12.905251336 ProcessGroupNCCL.cpp:2338] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
        "  failure detected by watchdog at work sequence id: 5000 PG status: last enqueued work: 5000, last started"
        " work: -1 (), last completed work: 4999\n"
    )

    def with_line(part: Part) -> Part:
        if part.name != "file":
            return part
        told = "".join(line.format(rank=rank) for rank in range(8))
        return Part(part.name, part.attributes, part.data + told.encode())

    by_code.rewrite("logs", with_line)
    assert_set_aside(by_code.replay(), "by the rank's log it is at 4999 of 5000")


def test_one_dump_of_another_job_accuses_nobody(by_code: Incident) -> None:
    """Rank 5 is the culprit by its own dump alone: without that, nothing of it is known."""
    by_code.rewrite_dumps(lambda rank, dump: moved(dump, 600.0) if rank == 5 else dump)
    report = by_code.replay()
    _, reason = asked(report)
    assert "those of ranks 5 are of another job" in reason
    assert report.verdict.kind not in {"extra_collective", "process_lost"}


def test_without_processes_the_ranks_of_most_dumps_count(by_code: Incident) -> None:
    shutil.rmtree(by_code.path / "evidence/processes")
    by_code.rewrite_dumps(lambda rank, dump: of_world(dump, 16 if rank == 3 else 8))
    _, reason = asked(by_code.replay())
    assert (
        "those of ranks 3 are of another job (rank 3: its default group has 16 ranks, that of most dumps other 8"
        in reason
    )


def test_where_nothing_can_tell_dumps_are_believed(by_code: Incident) -> None:
    for probe in ("processes", "logs"):
        shutil.rmtree(by_code.path / "evidence" / probe)
    by_code.rewrite_dumps(lambda _, dump: moved(dump, 600.0))
    assert by_code.replay().verdict.kind == "extra_collective"


def test_a_clock_that_was_not_set_tells_nothing(by_code: Incident) -> None:
    by_code.rewrite_dumps(lambda _, dump: moved(dump, 56 * 365 * 86400.0))
    assert by_code.replay().verdict.kind == "extra_collective"
