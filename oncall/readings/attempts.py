"""Does the launcher start the job again and again?"""

from collections.abc import Iterator, Mapping

from oncall.readings.attempts_agent import restart_count, worker_ends
from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, unknown
from oncall.readings.log_set import LogSet, own_logs
from oncall.readings.process_table import process_table


def attempts(case: Case) -> Judgement:
    """Is the job started again and again?

    `loop`: as many attempts within the run's window as count as a loop. `single`: it was started again, but seldom.
    `none`: this is the first start. `unknown`: neither folders nor processes tell.
    """
    logs = own_logs(case)
    count, recent = _counts(case, logs)
    limits = case.run.thresholds
    if count is None:
        return unknown("neither log folders nor processes tell how often the launcher started the job")
    if count == 0:
        return Judgement(verdict="none", reason="this is the first start, attempt 0")
    window_min = limits.restart_window_s / 60
    if recent is None:
        return unknown(f"{count} restarts, but nothing tells when")
    if recent < limits.restart_limit:
        return Judgement(verdict="single", reason=f"{recent} restarts in the last {window_min:.0f} min; {count} in all")
    finding = Finding(
        kind="restart_loop",
        text=f"{recent} restarts in the last {window_min:.0f} min, {count} in all",
        cites=tuple(_folders(logs)),
    )
    return Judgement(verdict="loop", reason=finding.text, findings=(finding,))


def _counts(case: Case, logs: LogSet | None) -> tuple[int | None, int | None]:
    """Restarts in all, and within the window; None where nothing tells. Without folders, by what the agents say."""
    table = case.view("processes", process_table)
    told = [n for p in (table.processes if table else ()) if (n := p.number("TORCHELASTIC_RESTART_COUNT")) is not None]
    youngest = _youngest(logs) if logs is not None else {}
    if logs is not None:
        told += [n for n in (logs.attempt, restart_count(logs), max(youngest, default=None)) if n is not None]
    recent = [n for n, age in youngest.items() if n > 0 and age <= case.run.thresholds.restart_window_s]
    return max(told, default=None), len(recent) if youngest else None


def _youngest(logs: LogSet) -> Mapping[int, float]:
    """Attempt → the age of its youngest folder in seconds; where there is none, the time since the one before ended."""
    told = [(number, age) for (_, number), age in logs.attempt_ages_s.items()]
    told = told or [(end.attempt + 1, end.age_s) for end in worker_ends(logs) if end.age_s is not None]
    youngest: dict[int, float] = {}
    for number, age in told:
        youngest[number] = min(age, youngest.get(number, age))
    return youngest


def _folders(logs: LogSet | None) -> Iterator[Citation]:
    for (host, number), age in sorted(logs.attempt_ages_s.items()) if logs else ():
        yield Citation(probe="logs", host=host, text=f"folder attempt_{number}, {age:.0f} s old")
