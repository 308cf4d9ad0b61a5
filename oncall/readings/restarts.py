"""Is the job starting again rather than hung?"""

from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, unknown
from oncall.readings.log_set import LogSet, own_logs
from oncall.readings.process_table import ProcessTable, process_table
from oncall.readings.progress import newest_step

_START_ALLOWANCE_S = 600.0
"""Rendezvous and checkpoint loading took 15 min in bad cases, 8 to 10 usually; after that a start counts as stuck."""


def restarts(case: Case) -> Judgement:
    """Did the launcher start the job again of late?

    `restarting`: this is not the first attempt, it began less than 10 min ago, and it has made no step yet. `steady`:
    any other. `unknown`: nothing tells how often the job was started.
    """
    logs = own_logs(case)
    table = case.view("processes", process_table)
    attempt = _attempt(logs, table)
    if attempt is None:
        return unknown("neither log folders nor processes tell how often the launcher started the job")
    if attempt == 0:
        return Judgement(verdict="steady", reason="this is the first start, attempt 0")
    age_s = _age_s(attempt, logs, table)
    if age_s is None:
        return unknown(f"attempt {attempt} runs, but nothing tells since when")
    finding = Finding(
        kind="restarting",
        text=f"the launcher made attempt {attempt} {age_s:.0f} s ago",
        cites=_cites(attempt, logs),
    )
    step = newest_step(case)
    if step is not None:
        return Judgement(verdict="steady", reason=f"{finding.text}, and it has done steps since", findings=(finding,))
    if age_s > _START_ALLOWANCE_S:
        return Judgement(verdict="steady", reason=f"{finding.text}: too long for a start", findings=(finding,))
    return Judgement(verdict="restarting", reason=f"{finding.text}; no step yet", findings=(finding,))


def _attempt(logs: LogSet | None, table: ProcessTable | None) -> int | None:
    counts = [
        n for p in (table.processes if table else ()) if (n := p.number("TORCHELASTIC_RESTART_COUNT")) is not None
    ]
    if logs is not None and logs.attempt is not None:
        counts.append(logs.attempt)
    return max(counts, default=None)


def _age_s(attempt: int, logs: LogSet | None, table: ProcessTable | None) -> float | None:
    ages = [age for (_, number), age in logs.attempt_ages_s.items() if number == attempt] if logs else []
    if not ages and table is not None:
        ages = [process.age_s for process in table.processes if process.age_s is not None]
    return min(ages, default=None)


def _cites(attempt: int, logs: LogSet | None) -> tuple[Citation, ...]:
    hosts = [host for host, number in logs.attempt_ages_s if number == attempt] if logs else []
    return tuple(Citation(probe="logs", host=host, text=f"folder attempt_{attempt}") for host in hosts)
