"""What the training processes wrote last, on all nodes, as the `logs` probe brought it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from oncall.bundle.evidence import Evidence, Part
from oncall.formats.event import Event
from oncall.formats.kernel_time import NodeClock
from oncall.formats.torchrun import read_torchrun
from oncall.readings.case import Case
from oncall.readings.clock import age_s, node_clock
from oncall.readings.finding import Citation
from oncall.readings.process_table import process_table
from oncall.run.numbers import whole

_CITED = 300
"""Characters of a line that are shown."""
_ATTEMPT = re.compile(r"attempt_(\d+)$")


@dataclass(frozen=True, slots=True)
class LogFile:
    """The end of one log.

    `rank` is known where a living process writes to the file, else None; `run_folder`, `attempt` and `local_rank` come
    from the folders that torchrun makes, None for a log that lies in none of them.
    `age_s` is the time since the last write, by the node's clock. `last_step` is a step line seen at the first look,
    `later_step` the same two seconds later. Line numbers of events count from where the tail begins.
    """

    host: str
    path: str
    rank: int | None
    run_folder: str | None
    attempt: int | None
    local_rank: int | None
    age_s: float | None
    events: tuple[Event, ...]
    last_step: Event | None
    later_step: Event | None
    ends_with_step: bool
    tail: bytes
    clock: NodeClock | None

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the tail, decoded anew each time: of thousands of logs a reading looks into few."""
        return tuple(self.tail.decode("utf-8", "replace").split("\n"))

    def cite(self, line: str) -> Citation:
        """A line of it, as far as it is shown."""
        return Citation(probe="logs", host=self.host, file=self.path, text=line.strip()[:_CITED])

    def line(self, event: Event) -> str:
        """The words of an event's first line."""
        lines = self.lines
        return lines[event.first_line - 1] if 0 < event.first_line <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A folder that a launcher made for one attempt: the run's folder above it, its number and its age in seconds."""

    folder: str
    number: int
    age_s: float


@dataclass(frozen=True)
class LogSet:
    """All logs found.

    `run_folders` maps a host to the folder that its launcher uses now: the one written to last, since older starts of
    the run may lie beside it. `attempts` are the launcher's folders of each host, with their age in seconds.
    """

    files: tuple[LogFile, ...]
    run_folders: Mapping[str, str]
    attempts: Mapping[str, tuple[Attempt, ...]]
    missing_folders: Mapping[str, str]

    @cached_property
    def attempt_ages_s(self) -> Mapping[tuple[str, int], float]:
        """(host, attempt number) → the age in seconds of its folder, of those that the launchers use now."""
        return {
            (host, each.number): each.age_s
            for host, listed in self.attempts.items()
            for each in listed
            if each.folder == self.run_folders.get(host)
        }

    @cached_property
    def attempt(self) -> int | None:
        """The newest attempt of the launcher, 0 being the first start; None where no folder tells."""
        return max(self._newest.values(), default=None)

    @cached_property
    def _newest(self) -> dict[str, int]:
        """Host → its newest attempt: after a restart, nodes whose own ranks had not failed may stay at the number."""
        newest: dict[str, int] = {}
        told = [(file.host, file.attempt) for file in self.files if file.attempt is not None and self.of_now(file)]
        for host, number in [*self.attempt_ages_s, *told]:
            newest[host] = max(number, newest.get(host, 0))
        return newest

    def of_now(self, file: LogFile) -> bool:
        """Whether a file is of the launch that runs now, or of none."""
        return file.run_folder is None or file.run_folder == self.run_folders.get(file.host)

    def current(self) -> tuple[LogFile, ...]:
        """The files of the newest attempt, and those that belong to no attempt."""
        newest = self._newest
        return tuple(file for file in self.files if file.attempt in {None, newest.get(file.host)} and self.of_now(file))


def log_set(evidence: Evidence) -> LogSet:
    """Read the answers of the `logs` probe."""
    files: list[LogFile] = []
    folders: dict[str, str] = {}
    attempts: dict[str, tuple[Attempt, ...]] = {}
    missing: dict[str, str] = {}
    for host in evidence.asked:
        parts = evidence.parts(host)
        clock = node_clock(evidence.answers.get(host), parts)
        own = tuple(_files(host, parts, clock, whole=evidence.why_cut(host) is None))
        told = (part.text for part in parts if part.name == "attempts")
        attempts[host] = listed = tuple(each for text in told for each in _attempts(text, clock))
        files += own
        if folder := _folder_of_now(own, listed):
            folders[host] = folder
        for part in parts:
            if part.name == "no-folder":
                missing[host] = part.attributes.get("path", "")
    return LogSet(tuple(files), folders, attempts, missing)


def own_logs(case: Case) -> LogSet | None:
    """The logs, of which those count that the job's own processes name; None where none were asked for.

    Of two jobs that log to one folder the one that hangs is not the one written to last.
    """
    return case.once(own_logs, ("logs", "processes"), lambda: _own_logs(case))


def _own_logs(case: Case) -> LogSet | None:
    logs, table = case.view("logs", log_set), case.view("processes", process_table)
    if logs is None or table is None:
        return logs
    named: dict[str, set[str]] = {}
    for process in table.processes:
        if told := process.variables.get("TORCHELASTIC_ERROR_FILE"):
            named.setdefault(process.host, set()).add(str(PurePosixPath(told).parent.parent.parent))
    listed = _folders_by_name(logs)
    own = {
        host: listed.get((host, PurePosixPath(path).name), path) for host, (path, *more) in named.items() if not more
    }
    return replace(logs, run_folders={**logs.run_folders, **own})


def _folders_by_name(logs: LogSet) -> dict[tuple[str, str], str]:
    """The launchers' folders under which logs were found, by host and name: the path to one may lead over a link."""
    told = [(file.host, file.run_folder) for file in logs.files if file.run_folder is not None]
    told += [(host, each.folder) for host, attempts in logs.attempts.items() for each in attempts]
    return {(host, PurePosixPath(folder).name): folder for host, folder in dict.fromkeys(told)}


def _files(host: str, parts: tuple[Part, ...], clock: NodeClock | None, *, whole: bool) -> Iterator[LogFile]:
    """The last file of an answer that was cut short has lost its end: which step was its last, it does not tell."""
    earlier = {part.attributes.get("path", ""): part.data for part in parts if part.name == "earlier"}
    again = {part.attributes.get("path", ""): part.data for part in parts if part.name == "again"}
    for part in parts:
        if part.name == "file":
            path = part.attributes.get("path", "")
            file = _file(host, part, earlier.get(path, b""), again.get(path), clock)
            yield file if whole or part is not parts[-1] else replace(file, last_step=None, ends_with_step=False)


def _file(host: str, part: Part, earlier: bytes, again: bytes | None, clock: NodeClock | None) -> LogFile:
    path = part.attributes.get("path", "")
    rank = part.number("rank")
    data = earlier + part.data
    events = read_torchrun(data, path, rank=rank).events
    steps = [event for event in events if event.kind == "step"]
    later = [e for e in read_torchrun(again, path, rank=rank).events if e.kind == "step"] if again else []
    folder = PurePosixPath(path).parent
    local_rank = whole(folder.name)
    attempt = _ATTEMPT.search(str(folder.parent)) if local_rank is not None else None
    return LogFile(
        host=host,
        path=path,
        rank=rank,
        run_folder=str(folder.parent.parent) if attempt else None,
        attempt=whole(attempt[1]) if attempt else None,
        local_rank=local_rank if attempt else None,
        age_s=age_s(clock, part.number("mtime")),
        events=events,
        last_step=steps[-1] if steps else None,
        later_step=later[-1] if later else None,
        ends_with_step=bool(steps) and steps[-1].last_line > data.rstrip().count(b"\n"),
        tail=data,
        clock=clock,
    )


def _attempts(text: str, clock: NodeClock | None) -> Iterator[Attempt]:
    for line in text.split("\n"):
        mtime, _, path = line.partition(" ")
        found = _ATTEMPT.search(path)
        number, age = whole(found[1]) if found else None, age_s(clock, whole(mtime))
        if number is not None and age is not None:
            yield Attempt(str(PurePosixPath(path).parent), number, age)


def _folder_of_now(files: tuple[LogFile, ...], listed: tuple[Attempt, ...]) -> str | None:
    """The launcher's folder that was written to last; without a file in any, the one with the youngest attempt."""
    written = [(file.age_s, file.run_folder) for file in files if file.run_folder and file.age_s is not None]
    made = [(each.age_s, each.folder) for each in listed]
    return min(written or made, default=(0.0, None))[1]
