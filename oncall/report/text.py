"""The triage report for a terminal: what it is and what to do first, then what that rests on."""

import textwrap
from collections.abc import Iterator
from datetime import timedelta

from oncall.bundle.evidence import by_reason
from oncall.neutral import neutral
from oncall.report.against import against
from oncall.report.durations import dollars, duration
from oncall.report.model import Report
from oncall.report.numbered import numbered

_WIDTH = 100
_LABEL = 10
_SOURCES = {"flight_recorder": "dumps"}
_MOST_SUSPECTS = 8
_MOST_ROWS = 3


def as_text(report: Report) -> str:
    """The report as lines of at most 100 columns; nothing from a node reaches the terminal unescaped."""
    return "\n".join(neutral(line) for line in _lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield _status(report)
    if report.job is not None:
        yield neutral(report.job.message)
    yield ""
    yield from _labelled("VERDICT", report.headline)
    yield from _do(report)
    if report.escalate:
        yield from _labelled("ESCALATE", report.escalate)
    yield ""
    yield from _evidence(report)
    yield from _walked(report)
    yield from _metrics(report)
    yield ""
    yield from _seen(report)
    yield from _changed(report)
    yield from _labelled("BUNDLE", f"{report.bundle}  (triage took {report.took_s:.1f} s)")


def _status(report: Report) -> str:
    parts = [f"{report.run}  {report.state.upper()}"]
    if report.last_step is not None:
        step = report.last_step
        bound = "at least " if step.at_least else ""
        age = f", {bound}{duration(step.age_s)} ago{_at(report)}" if step.age_s is not None else ""
        normal = f" (normal {step.normal_s:.3g} s a step)" if step.normal_s is not None else ""
        parts.append(f"last step {step.step:,}{age}{normal}")
    if report.cost.usd is not None and report.cost.usd_per_minute is not None:
        parts.append(f"idle so far {dollars(report.cost.usd)}, {dollars(report.cost.usd_per_minute)} a minute")
    return "   ".join(parts)


def _at(report: Report) -> str:
    step = report.last_step
    if step is None or step.age_s is None or step.at_least:
        return ""
    return f" at {report.started - timedelta(seconds=step.age_s):%H:%M:%S} UTC"


def _do(report: Report) -> Iterator[str]:
    for number, say, actions in numbered(report.actions):
        yield from _labelled("DO" if number == 1 else "", f"{number}  {say}")
        yield from (f"{'':{_LABEL}}   $ {action.command}" for action in actions if action.command)


def _evidence(report: Report) -> Iterator[str]:
    for suspect in report.suspects[:_MOST_SUSPECTS]:
        gpu = f" gpu{suspect.gpu_index}" if suspect.gpu_index is not None else ""
        where = f"{suspect.host or 'host not known'}{gpu}"
        place = " ".join(f"{name}={index}" for name, index in suspect.coordinate.items())
        yield from _labelled("SUSPECT", f"rank {suspect.rank}  {where}  {place}".rstrip())
        for source, words in suspect.says.items():
            yield from _labelled("", f"{_SOURCES.get(source, source):8} {words}")
    if len(report.suspects) > _MOST_SUSPECTS:
        yield from _labelled("", f"and {len(report.suspects) - _MOST_SUSPECTS} more; all are in --json")
    if report.waiting_ranks:
        yield from _labelled("VICTIMS", f"ranks {report.waiting_ranks} wait")
    yield from _labelled("AGAINST", "; ".join(against(report)) or "nothing seen contradicts it")


def _walked(report: Report) -> Iterator[str]:
    yield ""
    for index, step in enumerate(report.steps):
        cites = f"  [{', '.join(step.findings)}]" if step.findings else ""
        yours = " by the operator's word" if step.overruled_because is not None else ""
        yield from _labelled("WALKED" if index == 0 else "", f"{step.ask}  {step.verdict.upper()}{yours}")
        yield from _labelled("", f"  {step.reason}{cites}")


def _metrics(report: Report) -> Iterator[str]:
    if report.panels:
        yield ""
    for index, panel in enumerate(report.panels):
        yield from _labelled("METRICS" if index == 0 else "", f"{panel.question}  {panel.verdict.upper()}")
        yield from _labelled("", f"  {panel.reason}")
        for row in panel.rows[:_MOST_ROWS] if panel.verdict == "suspect" else ():
            before = f" (was {row.before:,.4g})" if row.before is not None else ""
            yield from _labelled("", f"  {row.who:<22} {row.value:,.4g} {panel.unit}{before}")
        yield from _labelled("", f"  {panel.query}")


def _alerts(report: Report) -> Iterator[str]:
    for index, alert in enumerate((report.alerts or ())[:_MOST_SUSPECTS]):
        told = [f"{alert.name} since {alert.since:%H:%M} UTC", *filter(None, [alert.summary])]
        told += [f"silenced by {each}" for each in alert.silenced_by]
        told += [f"inhibited by {each}" for each in alert.inhibited_by]
        yield from _labelled("ALERTS" if index == 0 else "", "; ".join(told))


def _seen(report: Report) -> Iterator[str]:
    yield from _alerts(report)
    if report.symptom is not None and report.symptom.source != "nothing":
        yield from _labelled("CALLS FOR", f"{report.symptom.playbook}: {report.symptom.reason}")
    equal: dict[tuple[int, int, str, tuple[tuple[str, str], ...]], list[str]] = {}
    for probe, each in report.coverage.items():
        equal.setdefault((each.answered, each.asked, each.of, tuple(each.missing.items())), []).append(probe)
    for index, ((answered, asked, of, missing), probes) in enumerate(equal.items()):
        told = [f"{answered} of {asked} {of} answered ({', '.join(probes)})", *by_reason(dict(missing))]
        if (more := len(told) - 1 - _MOST_SUSPECTS) > 0:
            told[-more:] = [f"{more} more reasons are in --json"]
        yield from _labelled("SEEN" if index == 0 else "", "; ".join(told))
    if report.unseen_ranks:
        yield from _labelled("", f"not seen: ranks {report.unseen_ranks}")


def _changed(report: Report) -> Iterator[str]:
    compared = report.compared
    if compared is None:
        return
    yield ""
    since = f"since {compared.started:%Y-%m-%d %H:%M:%S} UTC"
    yield from _labelled("CHANGED", since if compared.changes else f"nothing {since}")
    for change in compared.changes:
        yield from _labelled("", f"{change.what}: {change.now or 'not so'}; it was: {change.before or 'not so'}")


def _labelled(label: str, text: str) -> Iterator[str]:
    body = textwrap.wrap(neutral(text), _WIDTH - _LABEL, subsequent_indent="  ", break_on_hyphens=False) or [""]
    for index, line in enumerate(body):
        yield f"{label if index == 0 else '':{_LABEL}}{line}".rstrip()
