"""Tasks and CPUs that stand still, and processes that crash.

Wordings of Linux 4 to 6: kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h, arch/x86/mm/fault.c,
arch/x86/kernel/traps.c.
"""

import re

from oncall.formats.event import Json
from oncall.formats.kernel_line import Following, Reading, Signature

_HUNG = re.compile(
    r"INFO: task (?P<process>.{1,60}?):(?P<pid>\d+) (?:is )?blocked for more than (?P<seconds>\d+) seconds"
)
_STATE = re.compile(r"task:(?P<process>.{1,60}?)\s+state:(?P<state>\S)\s")
_OLD_STATE = re.compile(
    r"(?P<process>.{1,60}?)\s+(?P<state>[DRSTtXZPI])\s+[0-9a-f]{0,16}\s+\d+\s+\d+\s+\d+ 0x[0-9a-f]+"
)
_SOFT = re.compile(
    r"(?:NMI )?(?:watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d+) stuck for (?P<seconds>\d+)s! "
    r"\[(?P<process>.{0,60}):(?P<pid>\d+)\]"
)
_HARD = re.compile(r"(?:NMI )?(?:watchdog: )?(?:CPU\d+: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d+)")
_RCU = re.compile(r"(?:rcu: )?INFO: (?P<flavour>rcu_\w+) (?:self-)?detected (?:expedited )?stalls? on CPUs?")
_SEGFAULT = re.compile(
    r"(?P<process>.{1,60}?)\[(?P<pid>\d+)\]: segfault at (?P<address>[0-9a-f]+) ip (?P<ip>\S+) sp \S+ error \w+"
    r"(?: in (?P<library>[^\[\s]{1,255})\[)?"
)
_TRAP = re.compile(
    r"traps: (?P<process>.{1,60}?)\[(?P<pid>\d+)\] (?:trap )?(?P<trap>[a-z][a-z0-9 ]{2,40}?) ip:\S+ sp:\S+ error:\w+"
    r"(?: in (?P<library>[^\[\s]{1,255})\[)?"
)

_LINES_TO_STATE = 6


def _read_hung(message: str, following: Following) -> Reading | None:
    found = _HUNG.match(message)
    if found is None:
        return None
    state: str | None = None
    last = 0
    for offset, line in enumerate(following(_LINES_TO_STATE), start=1):
        task = _STATE.match(line) or _OLD_STATE.match(line)
        if task is not None and task["process"] == found["process"]:
            state, last = task["state"], offset
            break
        if _HUNG.match(line):
            break
    fields: dict[str, Json] = {"process": found["process"], "pid": int(found["pid"]), "seconds": int(found["seconds"])}
    return Reading("hung_task", {**fields, "state": state}, last)


def _read_soft_lockup(message: str, _following: Following) -> Reading | None:
    found = _SOFT.match(message)
    if found is None:
        return None
    cpu, seconds, pid = (int(found[name]) for name in ("cpu", "seconds", "pid"))
    return Reading("soft_lockup", {"cpu": cpu, "seconds": seconds, "process": found["process"] or None, "pid": pid})


def _read_hard_lockup(message: str, _following: Following) -> Reading | None:
    found = _HARD.match(message)
    return None if found is None else Reading("hard_lockup", {"cpu": int(found["cpu"])})


def _read_rcu(message: str, _following: Following) -> Reading | None:
    found = _RCU.match(message)
    return None if found is None else Reading("rcu_stall", {"flavour": found["flavour"]})


def _read_segfault(message: str, _following: Following) -> Reading | None:
    found = _SEGFAULT.match(message)
    if found is None:
        return None
    fields: dict[str, Json] = {"process": found["process"], "pid": int(found["pid"]), "library": found["library"]}
    return Reading("segfault", fields)


def _read_trap(message: str, _following: Following) -> Reading | None:
    found = _TRAP.match(message)
    return None if found is None else Reading("trap", {**found.groupdict(), "pid": int(found["pid"])})


SIGNATURES = (
    Signature(b"blocked for more than", _read_hung),
    Signature(b"BUG: soft lockup", _read_soft_lockup),
    Signature(b"detected hard LOCKUP", _read_hard_lockup),
    Signature(b"INFO: rcu_", _read_rcu),
    Signature(b": segfault at ", _read_segfault),
    Signature(b"traps: ", _read_trap),
)
