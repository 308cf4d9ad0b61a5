"""An operator's word in place of what was read: every form of the answer says so, and none is sure of it."""

import asyncio
from collections.abc import Callable

import pytest

from oncall.console.snapshot import Snapshot, Start
from oncall.console.views.headline import headline, standing_against
from oncall.flight_recorder.model import Grade
from oncall.playbook.engine import Overruling, walk
from oncall.playbook.loader import load
from oncall.playbook.sources import RecordedSource
from oncall.rehearse.incidents import incidents
from oncall.report.build import build_report
from oncall.report.markdown import as_markdown
from oncall.report.model import Report
from oncall.report.text import as_text
from oncall.report.triage import case_of

REASON = "squeue shows it requeued"


def _report(**verdicts: str) -> Report:
    bundle = incidents()["hang-by-hardware"].bundle
    own = {step: Overruling(verdict, REASON) for step, verdict in verdicts.items()}
    ended = asyncio.run(walk(load("hang"), RecordedSource(bundle), case_of(bundle), lambda _: None, own))
    return build_report(ended, bundle=str(bundle.path), took_s=1.0)


def _screen(report: Report) -> str:
    start = Start(report.run, report.started, report.bundle, live=False, read_only=True)
    snapshot = Snapshot(start, report=report)
    return " ".join(row.text for row in (headline(snapshot), *standing_against(snapshot)))


@pytest.mark.parametrize("form", [as_text, as_markdown, _screen])
def test_every_form_of_the_answer_tells_of_the_operators_word(form: Callable[[Report], str]) -> None:
    told = " ".join(form(_report(restarting="restarting")).split())
    assert f"The operator says so: {REASON}" in told or f"the operator says so: {REASON}" in told
    assert "restarting was read as steady" in told
    assert "nothing seen contradicts it" not in told
    assert "against it: nothing seen" not in told


def test_what_rests_on_an_operators_word_is_not_sure() -> None:
    assert _report().verdict.grade is Grade.SURE
    overruled = _report(restarting="unknown").verdict
    assert overruled.hosts == ("node002",)
    assert overruled.grade is Grade.LIKELY
