"""py-spy's answers: `dump` as text (plain, coloured, --native, --locals, --subprocesses) or JSON, and its errors.

Forms read in py-spy 0.3 and 0.4 (src/dump.rs, src/stack_trace.rs).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from oncall.formats.event import Event, Json, Parsed
from oncall.formats.lines import strip_colour
from oncall.formats.pyspy_json import dumps_of_json
from oncall.formats.stack_summary import summarise_stacks
from oncall.formats.stacks import Frame, StackDump, Thread

MAX_BYTES = 64 * 1024 * 1024
"""A larger dump is read only this far; one of 8 processes with --locals is under 1 MiB."""

_PROCESS = re.compile(r"Process (?P<pid>\d+): (?P<cmdline>.*)$")
_PARENT = re.compile(r"Parent Process (?P<pid>\d+):")
_PYTHON = re.compile(r"Python v(?P<version>\S+)(?: \((?P<exe>.*)\))?\s*$")
_THREAD = re.compile(r'Thread (?P<id>0x[0-9A-Fa-f]+|\d+) \((?P<status>[^)]*)\)(?:: "(?P<name>.*)")?\s*$')
_FRAME = re.compile(r" {4}(?P<func>\S.*) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)\s*$")
_DETAIL = re.compile(r" {8}")
_RULE = re.compile(r"-{10,}\s*$")
_ERROR = re.compile(r"(?:Error: |(?=Permission Denied))(?P<error>.*\S)\s*$")
_REASON = re.compile(r"Reason: (?P<reason>.*\S)\s*$")
_PYTHON_FILE = re.compile(r"\.pyx?$|^<")


@dataclass(frozen=True, slots=True)
class Failure:
    """py-spy's word that it took no dump; `reason` is None when it gave none."""

    error: str
    reason: str | None
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class PyspyAnswer:
    """All that one file of py-spy output holds; `unrecognised` are the 1-based lines that fit nothing."""

    dumps: tuple[StackDump, ...]
    failures: tuple[Failure, ...]
    unrecognised: tuple[int, ...]


def _frame(found: re.Match[str]) -> Frame:
    native = not _PYTHON_FILE.search(found["file"])
    return Frame(found["func"], found["file"], int(found["line"]) if found["line"] else None, native)


def _thread(found: re.Match[str], number: int, frames: list[Frame]) -> Thread:
    posix = found["id"].startswith("0x")
    status = found["status"]
    return Thread(
        tid=None if posix else int(found["id"]),
        thread_id=int(found["id"], 16) if posix else None,
        name=found["name"] or None,
        status=status,
        gil="gil" in status.split("+"),
        frames=tuple(frames),
        line=number,
    )


class _TextReader:
    """Collects the processes of a text dump line by line."""

    def __init__(self) -> None:
        self.dumps: list[StackDump] = []
        self.failures: list[Failure] = []
        self.unrecognised: list[int] = []
        self._head: re.Match[str] | None = None
        self._head_line = self._last_line = 0
        self._parent: int | None = None
        self._python: re.Match[str] | None = None
        self._threads: list[tuple[re.Match[str], int, list[Frame]]] = []

    def close(self) -> None:
        """End the process under way, if any."""
        if self._head is not None:
            self.dumps.append(
                StackDump(
                    pid=int(self._head["pid"]),
                    parent_pid=self._parent,
                    cmdline=self._head["cmdline"].strip() or None,
                    python=self._python["version"] if self._python else None,
                    exe=self._python["exe"] if self._python else None,
                    threads=tuple(_thread(*each) for each in self._threads),
                    first_line=self._head_line,
                    last_line=self._last_line,
                )
            )
        self._head = self._parent = self._python = None
        self._threads = []

    def feed(self, number: int, text: str) -> None:
        """Take the next line."""
        if not text.strip() or _RULE.match(text):
            return
        if head := _PROCESS.match(text):
            self.close()
            self._head, self._head_line = head, number
        elif self._head is None:
            self._outside(number, text)
            return
        elif not self._inside(number, text):
            self.unrecognised.append(number)
        self._last_line = number

    def _inside(self, number: int, text: str) -> bool:
        if python := _PYTHON.match(text):
            self._python = python
        elif parent := _PARENT.match(text):
            self._parent = int(parent["pid"])
        elif thread := _THREAD.match(text):
            self._threads.append((thread, number, []))
        elif self._threads and (frame := _FRAME.match(text)):
            self._threads[-1][2].append(_frame(frame))
        else:
            return bool(self._threads and _DETAIL.match(text))
        return True

    def _outside(self, number: int, text: str) -> None:
        if error := _ERROR.match(text):
            self.failures.append(Failure(error["error"], None, number, number))
        elif self.failures and (reason := _REASON.match(text)):
            failed = self.failures[-1]
            if failed.reason is None:
                self.failures[-1] = Failure(failed.error, reason["reason"], failed.first_line, number)
        else:
            self.unrecognised.append(number)


def parse_pyspy(data: bytes) -> PyspyAnswer:
    """Take apart one file of py-spy output, text or JSON, with any number of processes."""
    data = data[:MAX_BYTES]
    if data.lstrip()[:1] in {b"[", b"{"}:
        dumps = dumps_of_json(data)
        return PyspyAnswer(dumps or (), (), () if dumps is not None else (1,))
    reader = _TextReader()
    for number, text in enumerate(strip_colour(data.decode("utf-8", "replace")).split("\n"), 1):
        reader.feed(number, text)
    reader.close()
    return PyspyAnswer(tuple(reader.dumps), tuple(reader.failures), tuple(reader.unrecognised))


def _thread_json(thread: Thread) -> dict[str, Json]:
    top = thread.frames[0] if thread.frames else None
    return {
        "tid": thread.tid,
        "thread_id": thread.thread_id,
        "name": thread.name,
        "status": thread.status,
        "gil": thread.gil,
        "frames": len(thread.frames),
        "top": {"func": top.func, "file": top.file, "line": top.line} if top else None,
        "line": thread.line,
    }


def _events(answer: PyspyAnswer, name: str, rank: int | None) -> Iterator[Event]:
    for dump in answer.dumps:
        fields: dict[str, Json] = {
            "rank": rank,
            "pid": dump.pid,
            "parent_pid": dump.parent_pid,
            "cmdline": dump.cmdline,
            "python": dump.python,
            "exe": dump.exe,
            "threads": [_thread_json(thread) for thread in dump.threads],
        }
        yield Event("pyspy_process", name, dump.first_line, dump.last_line, fields)
    for failed in answer.failures:
        said: dict[str, Json] = {"rank": rank, "error": failed.error, "reason": failed.reason}
        yield Event("pyspy_error", name, failed.first_line, failed.last_line, said)


def read_pyspy(data: bytes, name: str, *, rank: int | None = None) -> Parsed:
    """Read py-spy output as events: one `pyspy_process` a process, one `pyspy_error` a failed attempt.

    The summary says where the rank stands (`stack_summary`); None when no process was seen.
    """
    answer = parse_pyspy(data)
    events = sorted(_events(answer, name, rank), key=lambda each: each.first_line)
    return Parsed(tuple(events), answer.unrecognised, summarise_stacks(answer.dumps))
