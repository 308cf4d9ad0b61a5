"""NCCL messages of several lines: stacks of failed collectives, desync reports, errors with their last-error text."""

import re

from oncall.formats.envelope import Message
from oncall.formats.event import Json
from oncall.formats.lines import Line, Log
from oncall.formats.outcome import Near, Outcome, block
from oncall.run.numbers import whole

_FRAME = re.compile(r"\s*#\d+ (?P<func>.+?) from (?P<file>.+):(?P<line>\d+)\s*$")
_COLLECTIVE = re.compile(r"at collective: (?P<op>\w+), #(?P<seq>\d+)", re.IGNORECASE)
_JOINED = re.compile(r"\[(?P<ranks>[\d, ]+)\] joined but didn't finish collective #(?P<seq>\d+)")
_LAGGING = re.compile(r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks")
_NEVER = re.compile(r"never joined any collectives", re.IGNORECASE)
_STATE = re.compile(r"\s*#(?P<seq>\d+) (?P<state>started|finished) ranks:")
_STATE_RANKS = re.compile(r"\s*\[(?P<ranks>[\d, ]+)\] (?:started|finished) (?P<op>\w+)")
_RESULT = re.compile(r"\s*(?P<name>nccl[A-Z]\w+)\s*:")
_VERSION = re.compile(r"NCCL version (\d[\w.+-]*)")
_PEER = re.compile(r"(?P<host>[A-Za-z0-9][\w.:-]*?)<(?P<port>\d+)>")
_WORK_LINE = re.compile(r"SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+).*?Timeout\(ms\)=(?P<timeout>\d+)")
_LAST_ERROR = re.compile(r"\s*Last error:\s*(.*)")
_RAISED = re.compile(r"\s*(?:[\w.]+\.)?DistBackendError: ")
_MOST_ERROR_LINES = 8


def _ranks(text: str) -> list[Json]:
    return [int(part) for part in text.split(",") if part.strip().isdigit()]


def failed_stack(line: Line, message: Message, log: Log, common: dict[str, Json]) -> Outcome:
    """`Stack trace of the failed collective:` with `#n func from file:line` frames up to a blank line (2.6 on)."""
    frames: list[Json] = []
    last = line
    for after in log.following(line):
        match = _FRAME.match(after.text)
        if match is None:
            last = after if frames and not after.text.strip() else last
            break
        frames.append({"func": match["func"], "file": match["file"], "line": int(match["line"])})
        last = after
    return block("failed_collective_stack", line, last, log, **common, frames=frames) if frames else Near.MISS


class _Desync:
    """Collects the indented lines of one report."""

    def __init__(self) -> None:
        self.lagging: list[Json] | None = None
        self.lagging_at: int | None = None
        self.never_joined: bool | None = None
        self.snapshot: dict[str, Json] = {}
        self._state: dict[str, Json] = {}

    def feed(self, text: str) -> None:
        """Take the next line."""
        if joined := _JOINED.search(text):
            self.lagging, self.lagging_at = _ranks(joined["ranks"]), whole(joined["seq"])
        elif told := _LAGGING.search(text):
            self.lagging, self.never_joined = _ranks(told["ranks"]), bool(_NEVER.search(text)) or None
        elif opened := _STATE.match(text):
            self._state = {}
            states = self.snapshot.setdefault(opened["seq"], {})
            assert isinstance(states, dict)
            states[opened["state"]] = self._state
        elif held := _STATE_RANKS.match(text):
            self._state[held["op"]] = _ranks(held["ranks"])


def desync_report(line: Line, message: Message, log: Log, common: dict[str, Json]) -> Outcome:
    """`Timeout at collective: OP, #n` of TORCH_NCCL_DESYNC_DEBUG, with its indented findings and snapshot."""
    head = _COLLECTIVE.search(message.text)
    if head is None:
        return Near.MISS
    report = _Desync()
    last = line
    for after in log.following(line):
        if not after.text[:1].isspace():
            break
        report.feed(after.text)
        last = after
    return block(
        "desync_report",
        line,
        last,
        log,
        **common,
        op=head["op"],
        seq=whole(head["seq"]),
        lagging_ranks=report.lagging,
        lagging_at=report.lagging_at,
        never_joined=report.never_joined,
        snapshot=report.snapshot or None,
    )


def _error_tail(line: Line, log: Log) -> tuple[Line, str | None, str | None]:
    """The `ncclXxx: …` result name and the text after `Last error:` that follow an NCCL error; the last line used."""
    last, name, text = line, None, None
    lines = log.following(line)
    for _, after in zip(range(_MOST_ERROR_LINES), lines, strict=False):
        if name is None and (result := _RESULT.match(after.text)):
            name, last = result["name"], after
        elif match := _LAST_ERROR.match(after.text):
            last = after if match[1] else next(lines, after)
            text = (match[1] or last.text).strip() or None
            break
        else:
            break
    return last, name, text


def _error_fields(line: Line, log: Log) -> tuple[Line, dict[str, Json]]:
    last, name, text = _error_tail(line, log)
    version = _VERSION.search(line.text)
    peer = _PEER.search(text or "")
    return last, {
        "error": name,
        "nccl_version": version[1].rstrip(".") if version else None,
        "last_error": text,
        "peer": peer["host"] if peer else None,
        "peer_port": whole(peer["port"]) if peer else None,
    }


def async_error(line: Line, message: Message, log: Log, common: dict[str, Json]) -> Outcome:
    """`Collective WorkNCCL(…) raised the following async exception: …` and the lines that name the error."""
    work = _WORK_LINE.search(message.text)
    last, fields = _error_fields(line, log)
    return block(
        "nccl_async_error",
        line,
        last,
        log,
        **common,
        seq=whole(work["seq"]) if work else None,
        op=work["op"] if work else None,
        timeout_ms=whole(work["timeout"]) if work else None,
        **fields,
    )


def read_nccl_error(line: Line, log: Log) -> Outcome:
    """`DistBackendError: NCCL error in: …`, the exception that reaches Python, and the lines that name the error."""
    if not _RAISED.match(line.text):
        return None
    if "NCCL error in:" not in line.text:
        return Near.MISS
    last, fields = _error_fields(line, log)
    rank = line.rank if line.rank is not None else log.rank
    return block("nccl_error", line, last, log, rank=rank, ts=None, **fields)
