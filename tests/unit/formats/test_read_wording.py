"""A line whose words changed a little is an event still, or is counted as unrecognised; it is never lost."""

import json
import os
import re
from pathlib import Path

import pytest

from oncall.formats.torchrun import ANCHORS, read_torchrun

SHARED = Path(os.environ.get("ONCALL_SHARED", Path(__file__).resolve().parents[4] / "shared"))
CASES = sorted(path.parent for path in SHARED.glob("logs/nccl-*/expected.json"))
ABSENT = pytest.mark.skip(reason="the specification's log cases are not there: set ONCALL_SHARED")

VOICE = re.compile(
    r"(?:.*\.(?:cpp|h|py):\d+\] "
    r"|.*NCCL WARN |.*\[(?:PG .*)?Rank \d+\] |(?:WARNING:|.*: \[WARNING\] )\S* ?|[\w.]*(?:Error|Exception): )"
)
"""Where a line says who speaks; a change there makes it another program's line."""


def variants(line: str) -> list[str]:
    """The line with one word of its message changed, for each word that is no anchor."""
    anchors = b"\n".join(ANCHORS).decode()
    said = VOICE.match(line)
    start = said.end() if said else 0
    words = [
        found for found in re.finditer(r"[A-Za-z]{4,}", line) if found.start() >= start and found[0] not in anchors
    ]
    return [f"{line[: word.start()]}{word[0][:2]}zq{word[0][2:]}{line[word.end() :]}" for word in words]


@pytest.mark.parametrize("case", CASES or [pytest.param(Path(), marks=ABSENT)], ids=lambda path: path.name)
def test_changed_word_is_not_lost(case: Path) -> None:
    expected = json.loads((case / "expected.json").read_text())
    lost = []
    for event in expected["events"]:
        lines = (case / event["file"]).read_text().split("\n")
        first, last = event["line"] if isinstance(event["line"], list) else (event["line"], event["line"])
        if "elastic_failure_summary" in event["kind"]:
            continue  # The table is told by its frame, not by the words of one line.
        for changed in variants(lines[first - 1]):
            parsed = read_torchrun("\n".join([changed, *lines[first:last], ""]).encode(), "x")
            if not parsed.events and not parsed.unrecognised:
                lost.append(changed)
    assert lost == []


def test_unknown_error_of_the_watchdog_is_counted() -> None:
    line = b"[rank3]:[E927 18:20:11.900417111 ProcessGroupNCCL.cpp:2257] [PG ID 0 PG GUID 0 Rank 3] The flux ran dry.\n"
    parsed = read_torchrun(b"fine\n" + line, "x")
    assert (parsed.events, parsed.unrecognised) == ((), (2,))


def test_information_and_user_text_are_not_counted() -> None:
    text = (
        b"[rank0]:[I927 10:00:00.000000001 ProcessGroupNCCL.cpp:978] [PG ID 0 PG GUID 0 Rank 0] All is well.\n"
        b"INFO my note: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE)\n"
    )
    parsed = read_torchrun(text, "x")
    assert (parsed.events, parsed.unrecognised) == ((), ())


@pytest.mark.parametrize(
    "line",
    [
        " iteration 12 of 500 | consumed samples: 7 | lm loss: 1.0E+00 |",
        "[titan] 2026-05-04 10:00:00,123 - root - INFO - step: 5  perplexity: 3.1  tps: 311",
        "{'loss': 2.3, 'grad_norm': 1.2",
        "[2026-01-12 08:44:10,551] [INFO] [logging.py:128:log_dist] [Rank 0] step=340 of 500, lr=[4e-06]",
        "(min, max) time across ranks (ms): see below",
    ],
)
def test_changed_step_line_is_counted(line: str) -> None:
    parsed = read_torchrun(line.encode() + b"\n", "x")
    assert (parsed.events, parsed.unrecognised) == ((), (1,))
