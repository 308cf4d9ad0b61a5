"""What changed between two triages of the same run."""

from collections.abc import Iterator

from oncall.report.model import Change, Report


def changes(before: Report, now: Report) -> tuple[Change, ...]:
    """All differences that matter, the answer first."""
    told = {**_facts(before)}
    new = {**_facts(now)}
    names = dict.fromkeys([*new, *told])
    return tuple(
        Change(what=name, before=told.get(name), now=new.get(name)) for name in names if told.get(name) != new.get(name)
    )


def _facts(report: Report) -> dict[str, str]:
    return dict(_each_fact(report))


def _each_fact(report: Report) -> Iterator[tuple[str, str]]:
    yield "state", report.state
    yield "answer", report.headline
    if report.last_step is not None:
        yield "last step", f"{report.last_step.step:,}"
    for suspect in report.suspects:
        yield f"rank {suspect.rank}", f"suspect, on {suspect.host or 'a host not known'}"
        for source, words in suspect.says.items():
            yield f"rank {suspect.rank}, {source}", words
    for step in report.steps:
        yield f"step {step.step}", f"{step.verdict}: {step.reason}"
    yield "waiting ranks", report.waiting_ranks or "none"
    yield "ranks not seen", report.unseen_ranks or "none"
    for probe, coverage in report.coverage.items():
        yield f"{probe}", f"{coverage.answered} of {coverage.asked} nodes answered"
    for group in report.seen.stacks:
        yield f"stacks of {group.ranks}", f"{group.words} in {group.frame or 'no known frame'}"
