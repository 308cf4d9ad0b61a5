"""The OOM killer: who asked for memory, under which limit, and which process paid (Linux 4 to 6, mm/oom_kill.c)."""

import re

from oncall.formats.event import Json
from oncall.formats.kernel_line import Following, Reading, Signature, number

_INVOKED = re.compile(r"(?P<by>.{1,15}?) invoked oom-killer: ")
_CONSTRAINT = re.compile(r"oom-kill:constraint=(?P<constraint>\w+)")
_SETTING = re.compile(r",(?P<name>cpuset|oom_memcg|task_memcg|pid|uid)=(?P<value>[^,]*)")
_TASK = re.compile(r",task=(?P<task>.{0,60}?),pid=\d")
_KILLED = re.compile(
    r"(?:(?P<cgroup>Memory cgroup )?[Oo]ut of memory(?: \(oom_kill_allocating_task\))?: Kill(?:ed)? process "
    r"|Killed process )(?P<pid>\d{1,10}) \((?P<process>.{0,60}?)\)(?:,? (?P<rest>.*))?$"
)
_SIZE = re.compile(r"\b(?P<name>total-vm|anon-rss|file-rss|shmem-rss):(?P<kb>\d+)kB")
_SCORE = re.compile(r"score (?P<score>\d+) or sacrifice child")

_LINES_TO_SIZES = 3
"""Linux before 4.20 prints the sizes on a line of their own after the sentence."""


def _read_invoked(message: str, _following: Following) -> Reading | None:
    constraint = _CONSTRAINT.match(message)
    if constraint is not None:
        return _constraint(message, constraint["constraint"])
    invoked = _INVOKED.match(message)
    return None if invoked is None else Reading("oom_invoked", {"by": invoked["by"]})


def _constraint(message: str, constraint: str) -> Reading:
    settings = {found["name"]: found["value"] for found in _SETTING.finditer(message)}
    task = _TASK.search(message)
    return Reading(
        "oom_kill_constraint",
        {
            "constraint": constraint,
            "task": None if task is None else task["task"],
            "pid": number(settings.get("pid") or None),
            "oom_memcg": settings.get("oom_memcg"),
            "task_memcg": settings.get("task_memcg"),
            "cpuset": settings.get("cpuset"),
        },
    )


def _read_killed(message: str, following: Following) -> Reading | None:
    found = _KILLED.match(message)
    if found is None:
        return None
    pid, rest, lines_after = int(found["pid"]), found["rest"] or "", 0
    if _SCORE.match(rest):
        for offset, line in enumerate(following(_LINES_TO_SIZES), start=1):
            sizes = _KILLED.match(line)
            if sizes is not None and line.startswith("Killed process ") and int(sizes["pid"]) == pid:
                rest, lines_after = sizes["rest"] or "", offset
    fields: dict[str, Json] = {
        "scope": "cgroup" if found["cgroup"] else "global",
        "pid": pid,
        "process": found["process"],
        **_sizes(rest),
    }
    return Reading("oom_kill", fields, lines_after)


def _sizes(rest: str) -> dict[str, Json]:
    """Sizes in kB (1024 bytes) as the kernel counts them; None where the line has none."""
    said = {found["name"]: int(found["kb"]) for found in _SIZE.finditer(rest)}
    names = {
        "total-vm": "total_vm_kb",
        "anon-rss": "anon_rss_kb",
        "file-rss": "file_rss_kb",
        "shmem-rss": "shmem_rss_kb",
    }
    return {field: said.get(name) for name, field in names.items()}


SIGNATURES = (
    Signature(b"oom-kill", _read_invoked),
    Signature(b"ut of memory: Kill", _read_killed),
)
