"""What state a job is in, as those see it who are called for it, and the one message that says so."""

from dataclasses import replace
from enum import StrEnum

import msgspec

from oncall.readings.case import Case
from oncall.readings.job_facts import JobFacts, Xid, job_facts
from oncall.readings.slowness import slowness
from oncall.run.model import Thresholds

_STARTING_S = 900.0
"""From a new attempt to its first step: rendezvous and loading took 15 minutes in bad cases."""

_MOST_XIDS = 2


class State(StrEnum):
    """The states of a job.

    Running, restarting, resuming and ended need nobody; stalled, numerics and hardware fault page; the last two
    need a decision. A restart explains why no step ends: it is never stalled too.
    """

    RUNNING = "running"
    STALLED = "stalled"
    NUMERICS = "loss not finite"
    HARDWARE = "hardware fault"
    RESTARTING = "restarting"
    RESUMING = "resuming"
    HUMAN = "needs a human"
    STOP = "stop"
    ENDED = "ended"
    UNKNOWN = "unknown"


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The state, and one message that carries what a person called at night has to know."""

    state: State
    message: str


def job_state(case: Case, *, stands: bool) -> JobState:
    """The state of the case's job as far as its evidence tells; `stands` where the walk saw that no step can end."""
    facts = job_facts(case)
    if facts.stalled is None and stands:
        facts = replace(facts, stalled=True)
    state = state_of(facts, case.run.thresholds)
    return JobState(state=state, message=_message(case, facts, state))


def state_of(facts: JobFacts, limits: Thresholds) -> State:
    """The state that follows from the facts.

    Restarting silences stalled; stalled again within `restart_window_s` of a restart that had made steps needs a
    human; `restart_limit` restarts within that window without a step that lasts mean stop.
    """
    restarted = bool(facts.restarts)
    recent = facts.attempt_age_s is not None and facts.attempt_age_s <= limits.restart_window_s
    starting = restarted and facts.stepped_since is False and (facts.attempt_age_s or 0.0) < _STARTING_S
    too_many = (facts.restarts or 0) >= limits.restart_limit
    rules = (
        (facts.finished, State.ENDED),
        (too_many and (starting or bool(facts.stalled)), State.STOP),
        (starting, State.RESTARTING),
        (facts.loss_finite is False, State.NUMERICS),
        (bool(facts.stalled) and restarted and recent, State.HUMAN),
        (bool(facts.stalled), State.STALLED),
        (bool(facts.xids), State.HARDWARE),
        (facts.stalled is None, State.UNKNOWN),
        (restarted and recent, State.RESUMING),
    )
    return next((state for holds, state in rules if holds), State.RUNNING)


def _message(case: Case, facts: JobFacts, state: State) -> str:
    parts = [f"{case.run.name} {_progress(facts, state)}"]
    parts += [_xid(xid) for xid in facts.xids[:_MOST_XIDS]]
    if len(facts.xids) > _MOST_XIDS:
        parts.append(f"{len(facts.xids) - _MOST_XIDS} more Xids")
    judged = slowness(case)
    if judged.verdict == "slower":
        parts.append(judged.reason)
    parts += _what_next(case, facts, state)
    return "; ".join(parts)


def _progress(facts: JobFacts, state: State) -> str:
    at = f" at step {facts.step:,}" if facts.step is not None else ""
    match state:
        case State.ENDED:
            return f"ended as planned{at}"
        case State.NUMERICS:
            return f"has a loss that is not finite{at}"
        case State.UNKNOWN:
            return f"may run or not: nothing tells when a step ended{at and f', the last seen is {at[4:]}'}"
        case _:
            stopped = facts.stalled or state in {State.RESTARTING, State.STOP}
            return f"stopped{at}" if stopped else f"runs{at}"


def _xid(xid: Xid) -> str:
    gpu = f" gpu {xid.gpu}" if xid.gpu is not None else ""
    when = f" at {xid.at:%H:%M}" if xid.at is not None else ""
    return f"{xid.host}{gpu} reported Xid {xid.code}{when}"


def _what_next(case: Case, facts: JobFacts, state: State) -> list[str]:
    second_line = case.run.contacts.second_line or "the second line"
    minutes = f"{(facts.attempt_age_s or 0.0) / 60:.0f} min"
    match state:
        case State.RESTARTING:
            return [f"automatic restart in progress ({_ordinal(facts.restarts or 1)})"]
        case State.RESUMING:
            return [f"resumed after a restart {minutes} ago"]
        case State.HUMAN:
            return [f"it has stalled again within {minutes} of a restart: call {second_line}"]
        case State.STOP:
            window_min = case.run.thresholds.restart_window_s / 60
            return [f"{facts.restarts} restarts within {window_min:.0f} min did not help: stop the job"]
        case _:
            return []


def _ordinal(number: int) -> str:
    words = {1: "first", 2: "second", 3: "third"}
    return words.get(number, f"{number}th")
