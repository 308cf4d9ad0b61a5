"""What changed between two triages of the same run."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from oncall.report.model import Change, Report

_AGE = re.compile(r"\d[\d.,]* ?(?:ms|s|min|h|d)\b")


class _Fact(NamedTuple):
    """What is told under a name; only where `key` differs has it changed: ages grow by themselves."""

    name: str
    text: str
    key: str


def changes(before: Report, now: Report) -> tuple[Change, ...]:
    """All differences that matter, the answer first."""
    told = {fact.name: fact for fact in _facts(before)}
    new = {fact.name: fact for fact in _facts(now)}
    return tuple(
        Change(what=name, before=told[name].text if name in told else None, now=new[name].text if name in new else None)
        for name in dict.fromkeys([*new, *told])
        if name not in told or name not in new or told[name].key != new[name].key
    )


def _facts(report: Report) -> Iterator[_Fact]:
    yield _whole("state", report.state)
    yield _wording("answer", report.headline)
    if report.last_step is not None:
        yield _whole("last step", f"{report.last_step.step:,}")
    for suspect in report.suspects:
        yield _whole(f"rank {suspect.rank}", f"suspect, on {suspect.host or 'a host not known'}")
        for source, words in suspect.says.items():
            yield _wording(f"rank {suspect.rank}, {source}", words)
    for step in report.steps:
        yield _Fact(f"step {step.step}", f"{step.verdict}: {step.reason}", step.verdict)
    yield _whole("waiting ranks", report.waiting_ranks or "none")
    yield _whole("ranks not seen", report.unseen_ranks or "none")
    for probe, coverage in report.coverage.items():
        yield _whole(f"{probe}", f"{coverage.answered} of {coverage.asked} nodes answered")
    for group in report.seen.stacks:
        yield _whole(f"stacks of {group.ranks}", f"{group.words} in {group.frame or 'no known frame'}")


def _whole(name: str, text: str) -> _Fact:
    return _Fact(name, text, text)


def _wording(name: str, text: str) -> _Fact:
    return _Fact(name, text, _AGE.sub("#", text))
