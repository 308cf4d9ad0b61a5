"""The fields that ProcessGroupNCCL's messages share: who speaks, the work described, how far the group has come."""

import re

from oncall.formats.envelope import Message, Speaker
from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.run.numbers import whole

_WORK = re.compile(r"WorkNCCL\((?P<fields>[^()]*(?:\([^()]*\)[^()]*)*)\)")
_WORK_FIELD = re.compile(r"(\w+)(?:\(ms\))?=([^,]*)")
_LAST_ENQUEUED = re.compile(r"last enqueued (?:NCCL )?work: (-?\d+)", re.IGNORECASE)
_LAST_STARTED = re.compile(r"last started (?:NCCL )?work: (-?\d+) \((\w*)\)", re.IGNORECASE)
_LAST_COMPLETED = re.compile(r"last completed (?:NCCL )?work: (-?\d+)", re.IGNORECASE)


def rank_of(line: Line, speaker: Speaker | None, log: Log) -> int | None:
    """The global rank: of the `[rankN]:` tag, else of a speaker in the default group, else of the file."""
    if line.rank is not None:
        return line.rank
    if speaker is not None and speaker.pg_id == 0:
        return speaker.rank
    return log.rank


def common(line: Line, message: Message, log: Log) -> dict[str, Json]:
    """Rank, stamp and group of a message; `pg_rank` only where the bracket names the group."""
    speaker = message.speaker
    grouped = speaker is not None and speaker.pg_id is not None
    return {
        "rank": rank_of(line, speaker, log),
        "ts": message.ts,
        "pg_id": speaker.pg_id if speaker else None,
        "pg_guid": speaker.guid if speaker else None,
        "pg_desc": speaker.desc if speaker else None,
        "pg_rank": speaker.rank if speaker and grouped else None,
    }


def first_number(pattern: re.Pattern[str], text: str) -> int | None:
    """The whole number that `pattern` captures first; None without a match."""
    match = pattern.search(text)
    return whole(match[1]) if match else None


def flag(pattern: re.Pattern[str], text: str) -> bool | None:
    """As `first_number`, for a 0 or 1."""
    value = first_number(pattern, text)
    return None if value is None else value != 0


def progress(text: str) -> dict[str, Json]:
    """The counters of a group. A started work of -1 is kept as written: the process did not measure starts."""
    started = _LAST_STARTED.search(text)
    return {
        "last_enqueued": first_number(_LAST_ENQUEUED, text),
        "last_started": int(started[1]) if started else None,
        "last_started_op": (started[2] or None) if started else None,
        "last_completed": first_number(_LAST_COMPLETED, text),
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
