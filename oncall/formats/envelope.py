"""What launchers, collectors and loggers put before a message: rank tags, stamps, host names, glog headers."""

import re
from dataclasses import dataclass

_RANK_TAG = re.compile(r"\[rank(\d{1,7})\]:\s?")
_WRAPPER = re.compile(
    r"""
      \[pod/[^\]\s]+\]\s                                             # kubectl logs --prefix
    | \[[A-Za-z_][\w.-]*?\d+\]:\s?                                    # torchrun --tee: [default3]:
    | [A-Za-z_][\w.-]*/\d+\ \[\d+\]:\s?                               # torchrun: trainer/0 [3]:
    | \[\d+\]\s(?=\S)                                                 # a launcher's line number
    | \s*\d+:\s(?=\S)                                                 # srun --label
    | \d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\s                 # a collector's stamp,
      (?:std(?:out|err)\s[FP]\s)?(?:[A-Za-z][\w.-]*\s(?=\[|[EFWI]\d{3,4}\s))?   # CRI stream, host
    """,
    re.VERBOSE,
)
_MOST_WRAPPERS = 8

_GLOG = re.compile(
    r"\[?(?P<severity>[EFWI])"
    r"(?:(?P<month>\d\d?)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d(?:\.\d+)?) +(?:(?P<tid>\d+) +)?| )"
    r"(?P<source>[^\s\]:]+):\d+\] ?"
)
_PYTHON_LOGGING = re.compile(
    r"(?:\[(?P<date>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d:\d\d)(?:,(?P<ms>\d{3}))?\] "
    r"(?P<late>[\w.]+): \[(?P<late_level>[A-Z]+)\] "
    r"|(?P<level>[A-Z]+):(?P<source>[\w.]+):)"
)
_SPEAKER = re.compile(
    r"\s*\[(?:PG (?:ID )?(?P<pg_id>\d+) (?:PG GUID (?P<guid>[^\s(\]]+)(?:\((?P<desc>.*?)\))? )?)?Rank (?P<rank>\d+)\]"
)
_WHAT = re.compile(r"\s*what\(\):\s*")


def unwrap(text: str) -> tuple[int | None, str]:
    """Strip the envelopes before a message; returns the global rank that a `[rankN]:` tag names, and the rest.

    `[rankN]:` is PyTorch's own (2.2 on) and carries the global rank; other tags carry a local rank or none and are
    dropped. Leading blanks that are no envelope stay: blocks are told by their indentation.
    """
    rank: int | None = None
    at = 0
    for _ in range(_MOST_WRAPPERS):
        if tag := _RANK_TAG.match(text, at):
            rank = int(tag[1])
            at = tag.end()
        elif wrapper := _WRAPPER.match(text, at):
            at = wrapper.end()
        else:
            break
    return rank, text[at:]


@dataclass(frozen=True, slots=True)
class Speaker:
    """The bracket that says which process group speaks; `rank` counts inside that group.

    Forms: `[Rank r]` (PyTorch 2.1), `[PG i Rank r]` (2.3), `[PG ID i PG GUID g(desc) Rank r]` (2.5 on).
    """

    pg_id: int | None
    guid: str | None
    desc: str | None
    rank: int


@dataclass(frozen=True, slots=True)
class Message:
    """A log message taken apart. `severity` is E, F, W or I; `ts` holds just what the line held, so no year in glog."""

    severity: str | None
    ts: str | None
    tid: int | None
    source: str | None
    speaker: Speaker | None
    text: str


def _speaker(text: str) -> tuple[Speaker | None, str]:
    found: Speaker | None = None
    while match := _SPEAKER.match(text):
        found = Speaker(
            int(match["pg_id"]) if match["pg_id"] else None, match["guid"], match["desc"] or None, int(match["rank"])
        )
        text = text[match.end() :]
    return found, text.lstrip()


def read_message(text: str) -> Message:
    """Take apart a glog (C++ or PyTorch's Python), Python `logging` or C++ `what():` line; else all is None."""
    if match := _GLOG.match(text):
        ts = f"{int(match['month']):02}-{match['day']}T{match['time']}" if match["day"] else None
        speaker, rest = _speaker(text[match.end() :])
        tid = int(match["tid"]) if match["tid"] else None
        return Message(match["severity"], ts, tid, match["source"], speaker, rest)
    if match := _PYTHON_LOGGING.match(text):
        ts = None
        if match["date"]:
            ts = f"{match['date']}T{match['time']}" + (f".{match['ms']}" if match["ms"] else "")
        level = match["late_level"] or match["level"]
        return Message(level[0], ts, None, match["late"] or match["source"], None, text[match.end() :])
    what = _WHAT.match(text)
    speaker, rest = _speaker(text[what.end() :] if what else text)
    return Message(None, None, None, None, speaker, rest)
