"""What the torchrun agent and Slurm say about workers: failures, signals, restarts, rendezvous, D state.

Words read in torch/distributed/elastic of PyTorch 2.0 to 2.13 and in srun's messages (Slurm 20 to 24).
"""

import re
import signal
from collections.abc import Callable

from oncall.formats.elastic_blocks import failure_summary, rendezvous
from oncall.formats.envelope import Message, read_message
from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.outcome import Near, Outcome, event
from oncall.run.numbers import whole

PID_LIMIT = 4_194_304
"""Linux's largest pid (PID_MAX_LIMIT, 64 bit); before PyTorch 2.4 the same column holds a far larger thread id."""

_ALARM = re.compile(r"group FAILED|UNHEALTHY|will restart|attempts? left|death signal|D-state|Result:\s*$")
_RAISED = re.compile(r"torch\.distributed\.elastic\.[\w.]+: ")
_EXCEPTION = re.compile(r"SignalException: Process (?P<pid>\d+) got signal: (?P<signal>\S+)")
_SRUN = re.compile(r"(?:srun|slurmstepd): error: (?P<host>[\w.-]+): tasks? (?P<tasks>[\d,-]+): (?P<reason>.+?)\s*$")
_SECONDS = r"\d+(?:\.\d+)?"
_EXIT_CODE = re.compile(r"exit code (\d+)")


def signal_name(number: int | None) -> str | None:
    """`SIGTERM` for 15; None for a number that Linux does not name."""
    try:
        return signal.Signals(number).name if number is not None else None
    except ValueError:
        return None


def _signal_number(text: str) -> int | None:
    """Of `15`, `SIGTERM` or `Signals.SIGTERM`, the three spellings in use."""
    if text.isdigit():
        return whole(text)
    try:
        return int(signal.Signals[text.rpartition(".")[2]])
    except KeyError:
        return None


def _worker_failed(found: re.Match[str]) -> dict[str, Json]:
    exitcode = int(found["exitcode"])
    return {
        "exitcode": exitcode,
        "signal": signal_name(-exitcode) if exitcode < 0 else None,
        "local_rank": whole(found["local_rank"]),
        "pid": whole(found["pid"]),
        "binary": found["binary"],
    }


def _send_signal(found: re.Match[str]) -> dict[str, Json]:
    return {"pid": whole(found["pid"]), "signal": signal_name(_signal_number(found["signal"]))}


def _force_kill(found: re.Match[str]) -> dict[str, Json]:
    return {
        "pid": whole(found["pid"]),
        "from_signal": _signal_number(found["before"]),
        "to_signal": _signal_number(found["after"]),
    }


def _restart(found: re.Match[str]) -> dict[str, Json]:
    return {
        "role": found["role"],
        "state": found["state"],
        "attempts_left": whole(found["left"]),
        "max_restarts": whole(found["most"]),
    }


def _membership(found: re.Match[str]) -> dict[str, Json]:
    return {"role": found["role"], "new_nodes": whole(found["nodes"]), "group_rank": whole(found["group_rank"])}


def _death_signal(found: re.Match[str]) -> dict[str, Json]:
    number = _signal_number(found["signal"])
    return {"signal_no": number, "signal": signal_name(number)}


def _dstate(found: re.Match[str]) -> dict[str, Json]:
    said: dict[str, Json] = {"role": found["role"], "pid": whole(found["pid"]), "limit_s": float(found["limit"])}
    stuck = found.groupdict().get("stuck")
    return said | {"stuck_s": float(stuck)} if stuck else said


def _unkillable(found: re.Match[str]) -> dict[str, Json]:
    return {
        "pid": whole(found["pid"]),
        "signal": signal_name(_signal_number(found["signal"])),
        "wait_s": whole(found["wait"]),
    }


_RULES: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], dict[str, Json]]], ...] = tuple(
    (kind, re.compile(pattern), read)
    for kind, pattern, read in (
        (
            "elastic_worker_failed",
            r"failed \(exitcode: (?P<exitcode>-?\d+)\) local_rank: (?P<local_rank>\d+) \(pid: (?P<pid>\d+)\)"
            r"(?: of binary: (?P<binary>\S+))?",
            _worker_failed,
        ),
        (
            "elastic_send_signal",
            r"(?:Sending|Closing) process (?P<pid>\d+) (?:closing|via) signal (?P<signal>[\w.]+)",
            _send_signal,
        ),
        (
            "elastic_force_kill",
            r"Unable to shutdown process (?P<pid>\d+) via (?P<before>[\w.]+), forcefully exiting via (?P<after>[\w.]+)",
            _force_kill,
        ),
        (
            "elastic_restart",
            r"\[(?P<role>[^\]]+)\] Worker group (?P<state>\w+)\. (?P<left>\d+)/(?P<most>\d+) attempts left",
            _restart,
        ),
        (
            "elastic_membership_change",
            r"\[(?P<role>[^\]]+)\] Detected (?P<nodes>\d+) new nodes from group_rank=(?P<group_rank>\d+)",
            _membership,
        ),
        (
            "elastic_death_signal",
            r"(?:Received|Got termination signal:) (?P<signal>[\w.]+)(?: death signal|\s*$)",
            _death_signal,
        ),
        (
            "elastic_dstate_enter",
            rf"\[(?P<role>[^\]]+)\] Worker pid=(?P<pid>\d+) entered uninterruptible sleep"
            rf".*? for (?P<limit>{_SECONDS})s",
            _dstate,
        ),
        (
            "elastic_dstate_stuck",
            r"\[(?P<role>[^\]]+)\] Worker pid=(?P<pid>\d+) stuck in uninterruptible sleep"
            rf".*? for (?P<stuck>{_SECONDS})s \(>= (?P<limit>{_SECONDS})s\)",
            _dstate,
        ),
        (
            "elastic_unkillable",
            r"Process (?P<pid>\d+) did not exit after (?P<signal>SIG\w+) within (?P<wait>\d+)",
            _unkillable,
        ),
    )
)


def _agent(message: Message) -> dict[str, Json]:
    pid = message.tid if message.tid is not None and message.tid <= PID_LIMIT else None
    return {"ts": message.ts, "agent_pid": pid, "agent_tid": None if pid is not None else message.tid}


def _raised(line: Line, log: Log) -> Outcome:
    found = _EXCEPTION.search(line.text)
    if found is None:
        return Near.MISS
    number = _signal_number(found["signal"])
    return event("elastic_signal_exception", line, log, agent_pid=whole(found["pid"]), signal_no=number)


def read_elastic_line(line: Line, log: Log) -> Outcome:
    """Read one line of the elastic agent, the failure table it prints last, or the exception that ends it."""
    if "ChildFailedError" in line.text or "Root Cause" in line.text:
        return failure_summary(line, log)
    if _RAISED.match(line.text):
        return _raised(line, log)
    message = read_message(line.text)
    source = message.source or ""
    if "distributed/elastic" not in source and "distributed.elastic" not in source:
        return None
    if "Rendezvous complete for workers" in message.text:
        return rendezvous(line, message, log, _agent(message))
    for kind, pattern, read in _RULES:
        if found := pattern.search(message.text):
            return event(kind, line, log, **_agent(message), **read(found))
    alarming = message.severity in {"E", "W"} or _ALARM.search(message.text)
    return Near.MISS if alarming else None


def read_slurm_line(line: Line, log: Log) -> Outcome:
    """Read srun's word that a task ended: `srun: error: host: task 3: Exited with exit code 1`."""
    if found := _SRUN.search(line.text):
        code = _EXIT_CODE.search(found["reason"])
        return event(
            "slurm_task_exit",
            line,
            log,
            host=found["host"],
            tasks=found["tasks"],
            reason=found["reason"],
            exitcode=whole(code[1]) if code else None,
        )
    return Near.MISS if re.match(r"(?:srun|slurmstepd): error: ", line.text) else None
