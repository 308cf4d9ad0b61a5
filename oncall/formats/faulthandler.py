"""Python's own stacks of a process, as `faulthandler.dump_traceback(all_threads=True)` writes them.

Forms of CPython 3.8 to 3.14 (Python/traceback.c): threads newest first, so that the main thread comes last; at most 100
of them, and of each at most 100 frames, innermost first. From 3.14 on a thread's name follows its id.
"""

import re

from oncall.formats.lines import strip_colour
from oncall.formats.stacks import Frame, StackDump, Thread

MAX_BYTES = 4 * 1024 * 1024
"""More than this is no such dump: 100 threads of 100 frames with long paths take 2 MiB."""

_THREAD = re.compile(r"(?:Current thread|Thread) 0x(?P<id>[0-9a-fA-F]{1,16})(?: \[.*\])? \(most recent call first\):$")
_FRAME = re.compile(r' {2}File "(?P<file>[^"]*)", line (?P<line>\d{1,9}|\?\?\?) in (?P<func>.+)$')
_CUT = "..."
"""Where more threads or frames are left out."""
_INSTALLED = re.compile(r"^.*/(?:site|dist)-packages/|^.*/lib/python3\.\d+/")


def parse_faulthandler(data: bytes, pid: int) -> StackDump | None:
    """The threads of one process; None where there are none in it.

    Such a dump names no thread and no state. The last one is called MainThread as py-spy does, unless the list was cut.
    """
    threads: list[tuple[str, int, list[Frame]]] = []
    lines = strip_colour(data[:MAX_BYTES].decode("utf-8", "replace")).split("\n")
    cut = len(data) > MAX_BYTES
    for number, text in enumerate(lines, 1):
        if found := _THREAD.match(text):
            threads.append((found["id"], number, []))
        elif text == _CUT:
            cut = True
        elif threads and (found := _FRAME.match(text)):
            threads[-1][2].append(_frame(found))
    if not threads:
        return None
    last = None if cut else len(threads) - 1
    return StackDump(
        pid=pid,
        parent_pid=None,
        cmdline=None,
        python=None,
        exe=None,
        threads=tuple(_thread(*thread, main=index == last) for index, thread in enumerate(threads)),
        first_line=1,
        last_line=len(lines),
    )


def _frame(found: re.Match[str]) -> Frame:
    """The file as py-spy shortens it: from the package on, or the name alone where that is not installed."""
    path = found["file"]
    short = _INSTALLED.sub("", path)
    file = short if short != path else path.rpartition("/")[2]
    return Frame(found["func"], file, int(found["line"]) if found["line"].isdecimal() else None, False, path)


def _thread(thread_id: str, line: int, frames: list[Frame], *, main: bool) -> Thread:
    name = "MainThread" if main else None
    return Thread(None, int(thread_id, 16), name, status="", gil=False, frames=tuple(frames), line=line)
