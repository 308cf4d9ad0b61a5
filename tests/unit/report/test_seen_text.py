"""What the plain answer says of who did not answer: everybody, in few words."""

import msgspec
import pytest

from oncall.rehearse.incidents import incidents
from oncall.report.model import Report
from oncall.report.text import as_text
from oncall.report.triage import replay


@pytest.fixture
async def report() -> Report:
    return await replay(incidents()["hang-by-code"].bundle, lambda _: None)


def unseen(report: Report, missing: dict[str, str]) -> str:
    """The text of a report whose kernel logs lack these nodes, on one line."""
    kernel = msgspec.structs.replace(report.coverage["kernel"], asked=128, answered=128 - len(missing), missing=missing)
    return " ".join(as_text(msgspec.structs.replace(report, coverage={"kernel": kernel})).split())


async def test_equal_reasons_are_folded_and_nobody_is_left_out(report: Report) -> None:
    missing = {f"node{number:03}": "timed out" for number in range(1, 101)} | {"node128": "login refused"}
    told = unseen(report, missing)
    assert "27 of 128 nodes answered (kernel); node[001-100]: timed out; node128: login refused" in told


async def test_more_reasons_than_fit_are_counted(report: Report) -> None:
    told = unseen(report, {f"node{number:03}": f"reason {number}" for number in range(1, 101)})
    assert "node008: reason 8; 92 more reasons are in --json" in told
