"""A suspect's own Python: the function that it is found in, once its hardware is cleared."""

import json
from pathlib import Path

import pytest

from oncall.bundle.evidence import NodeAnswer, Outcome
from oncall.readings.case import Case
from oncall.readings.software import software

from .evidence import BOUNDARY, NOW, Part, encode
from .series import SeriesCase, by_gpu
from .test_slowdown_readings import accuse, sound_links

SOUND = {"sm_clock": by_gpu([1980.0] * 8), **sound_links()}


@pytest.fixture
def series(tmp_path: Path) -> SeriesCase:
    return SeriesCase(tmp_path)


def look(function: str) -> Part:
    """Rank 5 computes in this function, as py-spy prints JSON."""
    frame = {"name": function, "filename": "/t/train.py", "short_filename": "train.py", "line": 3, "module": None}
    thread = {"pid": 1005, "thread_id": 1, "thread_name": "MainThread", "os_thread_id": 1005, "active": True}
    thread |= {"owns_gil": True, "frames": [frame], "process_info": None}
    return "stack", {"pid": "1005", "rank": "5", "exit": "0"}, json.dumps([thread])


def looked_at(series: SeriesCase, *functions: str) -> Case:
    """Rank 5 is suspected, and was found in these functions one after the other."""
    folder = series.bundle.probe_folder("stack_samples", ["node002"])
    output = folder.open_answer("node002")
    output.write(encode([*(look(name) for name in functions), ("end", {}, "")]))
    file = folder.relative(output.close())
    answer = NodeAnswer(host="node002", outcome=Outcome.OK, started=NOW, took_s=0.1, boundary=BOUNDARY, file=file)
    folder.record(answer)
    series.case.add(folder.evidence())
    accuse(series, 5)
    return series.case


def test_the_function_that_it_is_found_in_is_named(series: SeriesCase) -> None:
    series.tell(SOUND, SOUND)
    judged = software(looked_at(series, *["tokenise_again"] * 3))
    assert judged.verdict == "suspect"
    (finding,) = judged.findings
    assert (finding.kind, finding.ranks, finding.hosts) == ("software_straggler", (5,), ("node002",))
    assert "tokenise_again" in (finding.frame or "")


def test_two_looks_are_too_few(series: SeriesCase) -> None:
    series.tell(SOUND, SOUND)
    assert software(looked_at(series, "tokenise_again", "tokenise_again")).verdict == "unknown"


@pytest.mark.parametrize("withheld", ["sm_clock", "pcie_replay"])
def test_software_is_not_blamed_before_the_hardware_is_cleared(withheld: str, series: SeriesCase) -> None:
    told = {name: rows for name, rows in SOUND.items() if name != withheld}
    series.tell(told, told)
    judged = software(looked_at(series, *["tokenise_again"] * 3))
    assert judged.verdict == "unknown"
    assert withheld in judged.reason
