"""Do the attempts of a job die in the same place: the same node, the same rank, the same step, the same error?"""

from collections.abc import Sequence

from oncall.flight_recorder.model import Grade
from oncall.readings.attempts_ended import Failure, failures
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, Role, unknown
from oncall.readings.log_set import own_logs

_SAME_STEP = 1
"""Logs are written every few steps at best; two attempts that end one step apart end at the same data."""


def failure_pattern(case: Case) -> Judgement:
    """Do the attempts end in the same place?

    `same-step`: at one step, which counts most, since data and code go with a step and a machine's fault does not.
    `same-host`: on one host. `same-error`: by one error on several hosts. `different`: none of these. `unknown`: fewer
    than two failures are known.
    """
    logs = own_logs(case)
    known = failures(case, logs) if logs else ()
    if len(known) < 2:
        told = f"; {_told(known[0])}" if known else ""
        return unknown(f"the logs show how {len(known)} attempts ended, and it takes two to compare{told}")
    verdict, words = _compare(known)
    reason = f"{words}: " + "; ".join(_told(failure) for failure in known[-4:])
    return Judgement(verdict=verdict, reason=reason, findings=(_finding(verdict, words, known),))


def _compare(known: Sequence[Failure]) -> tuple[str, str]:
    steps = [failure.step for failure in known if failure.step is not None]
    hosts = {failure.host for failure in known}
    places = {(failure.host, failure.local_rank) for failure in known}
    errors = {failure.signature for failure in known}
    same_error = len(errors) == 1
    alike = ", by one error" if same_error else ""
    if len(steps) == len(known) and max(steps) - min(steps) <= _SAME_STEP:
        return "same-step", f"{len(known)} attempts ended at step {max(steps)}{alike}"
    if len(hosts) == 1:
        where = f"rank {known[0].rank}" if len(places) == 1 and known[0].rank is not None else "this host"
        return "same-host", f"{len(known)} attempts ended on {known[0].host}, {where} first{alike}"
    if same_error:
        return "same-error", f"{len(known)} attempts ended by one error, on {len(hosts)} hosts"
    return "different", f"{len(known)} attempts ended in {len(places)} places by {len(errors)} errors"


def _told(failure: Failure) -> str:
    who = f"rank {failure.rank}" if failure.rank is not None else f"local rank {failure.local_rank}"
    at = f" after step {failure.step}" if failure.step is not None else ""
    return f"attempt {failure.attempt}: {who} on {failure.host}{at}: {failure.error[:120]}"


def _finding(verdict: str, words: str, known: Sequence[Failure]) -> Finding:
    """The last attempt's ranks are the suspects where all died in one place or of one thing."""
    last = known[-1]
    ranks = sorted({failure.rank for failure in known if failure.rank is not None})
    alike = verdict != "different"
    return Finding(
        kind="program_error" if verdict in {"same-step", "same-error"} else "restart_loop",
        text=f"{words}; the last: {last.error[:200]}",
        role=Role.ORIGIN,
        grade=Grade.LIKELY if alike else Grade.UNDECIDED,
        ranks=tuple(ranks) if alike else (),
        hosts=tuple(dict.fromkeys(failure.host for failure in known)) if alike else (),
        sequence=last.step,
        cites=tuple(
            Citation(probe="logs", host=failure.host, file=failure.file.path, text=failure.error)
            for failure in known[-8:]
        ),
    )
