"""Does the launcher start the job again and again, and what does each attempt die of?"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from oncall.readings.case import Case
from oncall.readings.finding import Citation, Finding, Judgement, unknown
from oncall.readings.log_set import LogFile, LogSet, own_logs
from oncall.readings.process_table import process_table

_RAISED = re.compile(
    r"^(?:\[rank\d+\]:\s?)?(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit))(?::|$)"
)
_BY_OTHERS = re.compile(
    r"closed by peer|reset by peer|DistBackendError|DistStoreError|DistNetworkError|SignalException|NCCL|[Gg]loo"
    r"|[Ss]ocket [Tt]imeout|[Tt]imed out|ChildFailedError|KeyboardInterrupt"
)
"""Words of an exception that a rank dies of because another one was gone."""
_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+")


@dataclass(frozen=True, slots=True)
class Failure:
    """What one rank of one attempt died of.

    `rank` is None where no map tells it, `step` is the last that the attempt's logs show. `age_s` is the time since the
    file was last written.
    """

    attempt: int
    host: str
    local_rank: int | None
    rank: int | None
    step: int | None
    error: str
    age_s: float | None
    file: LogFile

    @property
    def signature(self) -> str:
        """The error with every number taken out, so that equal errors compare equal."""
        return _VARIES.sub("#", self.error)


def failures(case: Case, logs: LogSet) -> tuple[Failure, ...]:
    """The first failure of each attempt, oldest attempt first.

    An attempt whose logs show none is left out, and so is one whose logs show only what ranks died of because another
    one was gone: who that was, they do not tell.
    """
    by_attempt: dict[int, list[Failure]] = {}
    for file in logs.files:
        found = _of_file(case, logs, file)
        if found is not None and not _BY_OTHERS.search(found.error):
            by_attempt.setdefault(found.attempt, []).append(found)
    return tuple(min(by_attempt[attempt], key=_written) for attempt in sorted(by_attempt))


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
    """Restarts in all, and within the window; None where nothing tells."""
    table = case.view("processes", process_table)
    told = [n for p in (table.processes if table else ()) if (n := p.number("TORCHELASTIC_RESTART_COUNT")) is not None]
    if logs is not None and logs.attempt is not None:
        told.append(logs.attempt)
    youngest: dict[int, float] = {}
    for (_, number), age in (logs.attempt_ages_s if logs else {}).items():
        youngest[number] = min(age, youngest.get(number, age))
    recent = [n for n, age in youngest.items() if n > 0 and age <= case.run.thresholds.restart_window_s]
    return max(told, default=None), len(recent) if youngest else None


def _folders(logs: LogSet | None) -> Iterator[Citation]:
    for (host, number), age in sorted(logs.attempt_ages_s.items()) if logs else ():
        yield Citation(probe="logs", host=host, text=f"folder attempt_{number}, {age:.0f} s old")


def _of_file(case: Case, logs: LogSet, file: LogFile) -> Failure | None:
    if file.attempt is None:
        return None
    error = _last_error(file.lines)
    if error is None:
        return None
    rank = file.rank
    if rank is None and file.local_rank is not None:
        rank = case.ranks.rank_of(file.host, file.local_rank)
    return Failure(
        attempt=file.attempt,
        host=file.host,
        local_rank=file.local_rank,
        rank=rank,
        step=_last_step(logs.files, file.attempt),
        error=error,
        age_s=file.age_s,
        file=file,
    )


def _last_error(lines: Iterable[str]) -> str | None:
    """The last line that names an exception, without the rank's tag."""
    found = None
    for line in lines:
        if _RAISED.match(line):
            found = re.sub(r"^\[rank\d+\]:\s?", "", line).strip()[:300]
    return found


def _last_step(files: Iterable[LogFile], attempt: int) -> int | None:
    steps = [file.last_step.number("step") for file in files if file.attempt == attempt and file.last_step]
    return max((step for step in steps if step is not None), default=None)


def _written(failure: Failure) -> float:
    return -(failure.age_s or 0.0)
