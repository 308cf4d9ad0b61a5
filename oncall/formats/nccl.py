"""What ProcessGroupNCCL and its helpers log: timeouts, dump signals, Flight Recorder notes, process ends.

The words were read in the string tables of the PyTorch 2.1 to 2.13 wheels. Rules look for the words that carry the
meaning, never for source line numbers; an E or F line of these sources that no rule knows is a near miss.
"""

import re
from collections.abc import Callable

from oncall.formats.envelope import Message, read_message
from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.nccl_blocks import async_error, desync_report, failed_stack
from oncall.formats.nccl_fields import common, first_number, flag, progress, work_fields
from oncall.formats.outcome import Near, Outcome, event
from oncall.run.numbers import whole

_RAN = re.compile(r"ran for (\d+) milliseconds")
_INNER_RANK = re.compile(r"\[(?:PG [^\]]*)?Rank (\d+)\][^\[]*$")
_OUTSTANDING = re.compile(r"workMetaList_\.size\(\) ?= ?(\d+)")
_AT_WORK = re.compile(r"at (?:NCCL )?work(?: sequence id)?: (\d+)")
_SIGNAL = re.compile(
    r"received a .*?(?:(?P<local>this local rank)|(?P<other>another rank)|from +rank (?P<rank>\d+))", re.IGNORECASE
)
_STUCK = re.compile(r"watchdog got stuck for (\d+) second")
_STACK_FLAG = re.compile(r"include stack trace: ?(\d)", re.IGNORECASE)
_ACTIVE_FLAG = re.compile(r"only active collectives: ?(\d)", re.IGNORECASE)
_DUMP_PATH = re.compile(r"(?:dumping|writing|wrote|dumped)\b.*? to (?:file )?(\S+)", re.IGNORECASE)
_GIL = re.compile(r"could not acquire GIL within (\d+) ?ms", re.IGNORECASE)
_TERMINATE = re.compile(r"terminating the process.*?due to (.+?)\.?\s*$", re.IGNORECASE)
_EXCEPTION = re.compile(r"watchdog thread terminated with exception: ?(.*)", re.IGNORECASE)
_TROUBLE = re.compile(r"watchdog|timeout|timed out|dump|terminat|hang|stuck", re.IGNORECASE)
_TO_PATH = re.compile(r" to /\S")
_CPP_SOURCE = re.compile(r"\.(?:cpp|cc|cu|h|hpp)$")


def _timeout(line: Line, message: Message, log: Log) -> Outcome:
    work = work_fields(message.text)
    if work is None:
        return Near.MISS
    speaker = message.speaker
    spoken = speaker.rank if speaker else None
    fields = common(line, message, log)
    told = fields["rank"]
    fields.update(work)
    fields.update(rank=spoken, rank_prefix=line.rank, global_rank=told, ran_ms=first_number(_RAN, message.text))
    return event("nccl_timeout", line, log, **fields)


def _cause(text: str) -> str | None:
    if _RAN.search(text) or "timeout" in text.lower():
        return "timeout"
    if "CUDA error" in text:
        return "cuda_error"
    return "nccl_error" if "NCCL error" in text else None


def _terminated(line: Line, message: Message, log: Log) -> Outcome:
    exception = _EXCEPTION.search(message.text)
    if exception is None:
        return Near.MISS
    text = exception[1]
    fields = common(line, message, log)
    inner = _INNER_RANK.search(text[: text.find("WorkNCCL(")] if "WorkNCCL(" in text else text)
    spoken = whole(inner[1]) if inner else None
    if fields["rank"] is None and message.speaker is not None:
        fields["rank"] = message.speaker.rank
    work = work_fields(text) or {}
    return event(
        "watchdog_terminated",
        line,
        log,
        **fields,
        cause=_cause(text),
        seq=work.get("seq"),
        op=work.get("op"),
        spoken_rank=spoken,
        error=None if work else text[:300] or None,
        repeats_line=None,
    )


def _failure(kind: str) -> Callable[[Line, Message, Log], Outcome]:
    def read(line: Line, message: Message, log: Log) -> Outcome:
        seq = first_number(_AT_WORK, message.text)
        if seq is None:
            return Near.MISS
        return event(kind, line, log, **common(line, message, log), seq=seq, **progress(message.text))

    return read


def _signal(line: Line, message: Message, log: Log) -> Outcome:
    match = _SIGNAL.search(message.text)
    if match is None:
        return Near.MISS
    fields = common(line, message, log)
    local = match["local"] is not None
    return event(
        "dump_signal",
        line,
        log,
        **fields,
        source="local" if local else "remote",
        source_rank=fields["rank"] if local else whole(match["rank"]),
        **progress(message.text),
    )


def _stuck(line: Line, message: Message, log: Log) -> Outcome:
    return event(
        "heartbeat_stuck",
        line,
        log,
        **common(line, message, log),
        stuck_s=first_number(_STUCK, message.text),
        outstanding_works=first_number(_OUTSTANDING, message.text),
        fatal=message.severity == "F",
    )


def _heartbeat(line: Line, message: Message, log: Log) -> Outcome:
    return event(
        "heartbeat_timeout",
        line,
        log,
        **common(line, message, log),
        outstanding_works=first_number(_OUTSTANDING, message.text),
    )


def _dump_start(line: Line, message: Message, log: Log) -> Outcome:
    return event(
        "fr_dump_start",
        line,
        log,
        **common(line, message, log),
        include_stack_trace=flag(_STACK_FLAG, message.text),
        only_active=flag(_ACTIVE_FLAG, message.text),
    )


def _dump_path(line: Line, message: Message, log: Log) -> Outcome:
    match = _DUMP_PATH.search(message.text)
    return event("fr_dump_path", line, log, **common(line, message, log), path=match[1] if match else None)


def _terminate(line: Line, message: Message, log: Log) -> Outcome:
    match = _TERMINATE.search(message.text)
    return event("process_terminate", line, log, **common(line, message, log), reason=match[1] if match else None)


def _gil(line: Line, message: Message, log: Log) -> Outcome:
    return event("gil_not_acquired", line, log, **common(line, message, log), wait_ms=first_number(_GIL, message.text))


def _plain(kind: str) -> Callable[[Line, Message, Log], Outcome]:
    return lambda line, message, log: event(kind, line, log, **common(line, message, log))


def _block(
    read: Callable[[Line, Message, Log, dict[str, Json]], Outcome],
) -> Callable[[Line, Message, Log], Outcome]:
    return lambda line, message, log: read(line, message, log, common(line, message, log))


_RULES: tuple[tuple[re.Pattern[str], Callable[[Line, Message, Log], Outcome]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), read)
    for pattern, read in (
        (r"watchdog thread terminated with exception", _terminated),
        (r"raised the following async exception", _block(async_error)),
        (r"WorkNCCL\(.*(?:ran for \d+ milliseconds|timeout|timed out)|timeout.*WorkNCCL\(", _timeout),
        (r"detected by watchdog at work", _failure("watchdog_failure")),
        (r"timeout at NCCL work:", _failure("timeout_at_work")),
        (r"timeout at collective:", _block(desync_report)),
        (r"observed flight recorder dump signal|detecting the dump signal", _plain("dump_signal_observed")),
        (r"first PG on this rank to signal dumping", _plain("dump_first_pg")),
        (r"received a .*(?:signal|timeout).*(?:local rank|another rank|rank \d+)", _signal),
        (r"heartbeat monitor timed out", _heartbeat),
        (r"watchdog got stuck for \d+ second", _stuck),
        (r"preparing to dump debug info", _dump_start),
        (r"trace successfully dumped", _plain("fr_dump_done")),
        (r"(?:dumping|writing|wrote|dumped)\b.*(?:trace|debug info).* to \S", _dump_path),
        (r"stack trace of the failed collective not found", _plain("fr_disabled")),
        (r"stack trace of the failed collective:", _block(failed_stack)),
        (r"terminating the process after attempting to dump", _terminate),
        (r"taking the entire process down", _plain("process_takedown")),
        (r"NCCL operations have failed or timed out", _plain("data_inconsistency_warning")),
        (r"could not acquire GIL within \d+", _gil),
    )
)


def read_nccl_line(line: Line, log: Log) -> Outcome:
    """Read one line of ProcessGroupNCCL, its heartbeat monitor, its desync reporter or the Flight Recorder.

    A line counts only when it speaks in that voice (a C++ glog header or a `[… Rank r]` bracket), so a user's message
    that quotes one is no event.
    """
    message = read_message(line.text)
    native = message.source is not None and _CPP_SOURCE.search(message.source) is not None
    if not native and message.speaker is None:
        return None
    for pattern, read in _RULES:
        if pattern.search(message.text):
            return read(line, message, log)
    if native:
        alarming = message.severity in {"E", "F"} or _TO_PATH.search(message.text)
        return Near.MISS if alarming else None
    return Near.MISS if _TROUBLE.search(message.text) else None
