"""The incident in a few lines of Markdown, for a chat."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncall.neutral import neutral
from oncall.report.against import against
from oncall.report.durations import dollars, duration
from oncall.report.numbered import numbered

if TYPE_CHECKING:
    from oncall.report.model import Report

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~@])")
_MOST_SUSPECTS = 4


def as_markdown(report: "Report") -> str:
    """Answer, suspects, actions and what was not seen; text from nodes cannot start markup or name anybody."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: "Report") -> Iterator[str]:
    yield f"**{_plain(report.run)}: {_plain(report.headline)}**"
    yield ""
    yield f"- {_status(report)}"
    for suspect in report.suspects[:_MOST_SUSPECTS]:
        gpu = f" gpu{suspect.gpu_index}" if suspect.gpu_index is not None else ""
        told = "; ".join(f"{source}: {words}" for source, words in suspect.says.items())
        yield f"- rank {suspect.rank} on {_plain(suspect.host or 'a host not known')}{gpu}: {_plain(told)}"
    if len(report.suspects) > _MOST_SUSPECTS:
        yield f"- and {len(report.suspects) - _MOST_SUSPECTS} more suspects"
    if report.waiting_ranks:
        yield f"- ranks {report.waiting_ranks} wait for it"
    yield f"- against it: {_plain('; '.join(against(report)) or 'nothing seen')}"
    yield from _unseen(report)
    yield from _actions(report)
    yield ""
    yield f"Evidence: {_code(report.bundle)}, read again with {_code('oncall replay ' + report.bundle)}"


def _status(report: "Report") -> str:
    parts: list[str] = [report.state]
    if report.last_step is not None:
        age = report.last_step.age_s
        ago = f", {'at least ' if report.last_step.at_least else ''}{duration(age)} before" if age is not None else ""
        parts.append(f"last step {report.last_step.step:,}{ago} {report.started:%Y-%m-%d %H:%M:%S} UTC")
    if report.cost.usd is not None:
        parts.append(f"idle GPUs {dollars(report.cost.usd)} by then")
    return ", ".join(parts)


def _unseen(report: "Report") -> Iterator[str]:
    if report.unseen_ranks:
        yield f"- not seen: ranks {report.unseen_ranks}"
    missing = {host: reason for each in report.coverage.values() for host, reason in each.missing.items()}
    for host, reason in list(missing.items())[:_MOST_SUSPECTS]:
        yield f"- {_plain(host)}: {_plain(reason)}"
    if len(missing) > _MOST_SUSPECTS:
        yield f"- and {len(missing) - _MOST_SUSPECTS} more nodes lack an answer"


def _actions(report: "Report") -> Iterator[str]:
    for number, say, actions in numbered(report.actions):
        yield f"{number}. {_plain(say)}"
        yield from (f"   {_code(action.command)}" for action in actions if action.command)
    if report.escalate:
        yield f"- escalate: {_plain(report.escalate)}"


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", neutral(text))


def _code(text: str) -> str:
    """A code span whose fence is longer than any run of backticks inside (CommonMark 0.31.2, 6.1)."""
    body = neutral(text)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if body.startswith("`") or body.endswith("`") else ""
    return f"{fence}{pad}{body}{pad}{fence}"
