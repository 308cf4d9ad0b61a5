"""What ProcessGroupNCCL and its helpers log: timeouts, dump signals, Flight Recorder notes, process ends.

The words were read in the string tables of the PyTorch 2.1 to 2.13 wheels. Rules look for the words that carry the
meaning, never for source line numbers; an E or F line of these sources that no rule knows is a near miss.
"""

import re
from collections.abc import Callable

from oncall.formats.envelope import Message, Speaker, read_message
from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.nccl_blocks import async_error, desync_report, failed_stack
from oncall.formats.outcome import Near, Outcome, event, whole

_WORK = re.compile(r"WorkNCCL\((?P<fields>[^()]*(?:\([^()]*\)[^()]*)*)\)")
_WORK_FIELD = re.compile(r"(\w+)(?:\(ms\))?=([^,]*)")
_RAN = re.compile(r"ran for (\d+) milliseconds")
_INNER_RANK = re.compile(r"\[(?:PG [^\]]*)?Rank (\d+)\][^\[]*$")
_LAST_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (-?\d+)", re.IGNORECASE)
_LAST_STARTED = re.compile(r"last started (?:NCCL )?work: (-?\d+) \((\w*)\)", re.IGNORECASE)
_LAST_COMPLETED = re.compile(r"last completed (?:NCCL )?work: (-?\d+)", re.IGNORECASE)
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
_CPP_SOURCE = re.compile(r"\.(?:cpp|cc|cu|h|hpp)$")


def _rank(line: Line, speaker: Speaker | None, log: Log) -> int | None:
    """The global rank: of the `[rankN]:` tag, else of a speaker in the default group, else of the file."""
    if line.rank is not None:
        return line.rank
    if speaker is not None and speaker.pg_id == 0:
        return speaker.rank
    return log.rank


def _common(line: Line, message: Message, log: Log) -> dict[str, Json]:
    speaker = message.speaker
    grouped = speaker is not None and speaker.pg_id is not None
    return {
        "rank": _rank(line, speaker, log),
        "ts": message.ts,
        "pg_id": speaker.pg_id if speaker else None,
        "pg_guid": speaker.guid if speaker else None,
        "pg_desc": speaker.desc if speaker else None,
        "pg_rank": speaker.rank if speaker and grouped else None,
    }


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return whole(match[1]) if match else None


def _flag(pattern: re.Pattern[str], text: str) -> bool | None:
    value = _first(pattern, text)
    return None if value is None else value != 0


def _progress(text: str) -> dict[str, Json]:
    """The counters of a group. A started work of -1 is kept as written: the process did not measure starts."""
    started = _LAST_STARTED.search(text)
    return {
        "last_enqueued": _first(_LAST_ENQUEUED, text),
        "last_started": int(started[1]) if started else None,
        "last_started_op": (started[2] or None) if started else None,
        "last_completed": _first(_LAST_COMPLETED, text),
    }


def work_fields(text: str) -> dict[str, Json] | None:
    """What `WorkNCCL(SeqNum=…, OpType=…, …)` says; None when `text` holds none or one without a sequence number."""
    work = _WORK.search(text)
    if work is None:
        return None
    said = dict(_WORK_FIELD.findall(work["fields"]))
    seq = said.get("SeqNum", "")
    if not seq.isdigit():
        return None
    numbers = {
        name: whole(said[name]) if said.get(name, "").isdigit() else None for name in ("NumelIn", "NumelOut", "Timeout")
    }
    return {
        "seq": whole(seq),
        "op": said.get("OpType") or None,
        "numel_in": numbers["NumelIn"],
        "numel_out": numbers["NumelOut"],
        "timeout_ms": numbers["Timeout"],
    }


def _timeout(line: Line, message: Message, log: Log) -> Outcome:
    work = work_fields(message.text)
    if work is None:
        return Near.MISS
    speaker = message.speaker
    spoken = speaker.rank if speaker else None
    fields = _common(line, message, log)
    told = fields["rank"]
    fields.update(work)
    fields.update(rank=spoken, rank_prefix=line.rank, global_rank=told, ran_ms=_first(_RAN, message.text))
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
    fields = _common(line, message, log)
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
        seq = _first(_AT_WORK, message.text)
        if seq is None:
            return Near.MISS
        return event(kind, line, log, **_common(line, message, log), seq=seq, **_progress(message.text))

    return read


def _signal(line: Line, message: Message, log: Log) -> Outcome:
    match = _SIGNAL.search(message.text)
    if match is None:
        return Near.MISS
    fields = _common(line, message, log)
    local = match["local"] is not None
    return event(
        "dump_signal",
        line,
        log,
        **fields,
        source="local" if local else "remote",
        source_rank=fields["rank"] if local else whole(match["rank"]),
        **_progress(message.text),
    )


def _stuck(line: Line, message: Message, log: Log) -> Outcome:
    return event(
        "heartbeat_stuck",
        line,
        log,
        **_common(line, message, log),
        stuck_s=_first(_STUCK, message.text),
        outstanding_works=_first(_OUTSTANDING, message.text),
        fatal=message.severity == "F",
    )


def _heartbeat(line: Line, message: Message, log: Log) -> Outcome:
    return event(
        "heartbeat_timeout",
        line,
        log,
        **_common(line, message, log),
        outstanding_works=_first(_OUTSTANDING, message.text),
    )


def _dump_start(line: Line, message: Message, log: Log) -> Outcome:
    return event(
        "fr_dump_start",
        line,
        log,
        **_common(line, message, log),
        include_stack_trace=_flag(_STACK_FLAG, message.text),
        only_active=_flag(_ACTIVE_FLAG, message.text),
    )


def _dump_path(line: Line, message: Message, log: Log) -> Outcome:
    match = _DUMP_PATH.search(message.text)
    return event("fr_dump_path", line, log, **_common(line, message, log), path=match[1] if match else None)


def _terminate(line: Line, message: Message, log: Log) -> Outcome:
    match = _TERMINATE.search(message.text)
    return event("process_terminate", line, log, **_common(line, message, log), reason=match[1] if match else None)


def _gil(line: Line, message: Message, log: Log) -> Outcome:
    return event("gil_not_acquired", line, log, **_common(line, message, log), wait_ms=_first(_GIL, message.text))


def _plain(kind: str) -> Callable[[Line, Message, Log], Outcome]:
    return lambda line, message, log: event(kind, line, log, **_common(line, message, log))


def _block(
    read: Callable[[Line, Message, Log, dict[str, Json]], Outcome],
) -> Callable[[Line, Message, Log], Outcome]:
    return lambda line, message, log: read(line, message, log, _common(line, message, log))


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
        return Near.MISS if message.severity in {"E", "F"} else None
    return Near.MISS if _TROUBLE.search(message.text) else None
