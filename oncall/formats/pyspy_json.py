"""`py-spy dump --json`: one list of threads, of one process or of several (--subprocesses)."""

import re
from functools import lru_cache

import msgspec

from oncall.formats.stacks import Frame, StackDump, Thread

_PYTHON_FILE = re.compile(r"\.pyx?$|^<")


class _Frame(msgspec.Struct, frozen=True):
    name: str
    filename: str
    line: int = 0
    short_filename: str | None = None
    module: str | None = None


class _Process(msgspec.Struct):
    pid: int
    command_line: str | None = None
    parent: "_Process | None" = None


class _Thread(msgspec.Struct):
    pid: int
    active: bool
    owns_gil: bool
    frames: list[_Frame]
    thread_id: int | None = None
    thread_name: str | None = None
    os_thread_id: int | None = None
    process_info: _Process | None = None


_DECODER = msgspec.json.Decoder(list[_Thread])

_FRAMES_KEPT = 4096
"""Thousands of ranks stand in the same frames: they share them."""


@lru_cache(_FRAMES_KEPT)
def _frame(said: _Frame) -> Frame:
    file = said.short_filename or said.filename
    # py-spy writes line 0 where it knows none, which is so for every frame of a stripped library.
    return Frame(said.name, file, said.line or None, not _PYTHON_FILE.search(said.filename), said.filename)


def _thread(said: _Thread) -> Thread:
    return Thread(
        tid=said.os_thread_id,
        thread_id=said.thread_id,
        name=said.thread_name,
        status=("active" if said.active else "idle") + ("+gil" if said.owns_gil else ""),
        gil=said.owns_gil,
        frames=tuple(_frame(frame) for frame in said.frames),
    )


def dumps_of_json(data: bytes) -> tuple[StackDump, ...] | None:
    """The processes of a JSON dump in the order they come; None when `data` is not such a dump or is cut short."""
    try:
        threads = _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    last_line = data.rstrip().count(b"\n") + 1
    grouped: dict[int, list[_Thread]] = {}
    for thread in threads:
        grouped.setdefault(thread.pid, []).append(thread)
    dumps = []
    for pid, members in grouped.items():
        info = next((each.process_info for each in members if each.process_info), None)
        parent = info.parent.pid if info and info.parent else None
        dumps.append(
            StackDump(
                pid=pid,
                parent_pid=parent,
                cmdline=info.command_line if info else None,
                python=None,
                exe=None,
                threads=tuple(_thread(each) for each in members),
                first_line=1,
                last_line=last_line,
            )
        )
    return tuple(dumps)
