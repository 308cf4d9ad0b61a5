"""Explain NVIDIA Xid and NVSwitch SXid codes, or read a kernel log and explain what it holds.

`oncall xid 79` explains a code; `oncall xid FILE` or `oncall xid < FILE` reads dmesg, journalctl or kern.log in any of
their time formats, packed with gzip or zstd or not. Exit code: 0 nothing in the log should wake anybody, 10 something
should, 11 something may, since no table knows it, 12 the log is empty, cut short or no kernel log. Explaining codes
always ends with 0.
"""

import argparse
import json
import sys
from dataclasses import dataclass

import msgspec

from oncall.errors import UsageError
from oncall.formats.event import Event, Json, Parsed
from oncall.formats.kernel import read_kernel
from oncall.formats.kernel_summary import should_page
from oncall.formats.kernel_time import EventTime, event_time
from oncall.formats.recognise import Format, recognise
from oncall.formats.xid_catalogue import FIRST_SXID, SXidMeaning, XidMeaning, lookup, lookup_sxid, sxid_unit
from oncall.neutral import neutral
from oncall.report.xid_log_text import log_text
from oncall.report.xid_text import code_text

SCHEMA = "oncall.xid/1"
NOTHING_PAGES, PAGES, UNDECIDED, NO_EVIDENCE = 0, 10, 11, 12

_DIGITS = 5


@dataclass(frozen=True, slots=True)
class _Log:
    """What a file holds, and how far that can be trusted: nothing follows from the silence of what is no kernel log."""

    name: str
    parsed: Parsed
    empty: bool
    known: bool
    whole: bool


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `oncall xid`."""
    parser.add_argument(
        "what", nargs="*", metavar="CODE|FILE", help="an Xid, an SXid (five digits), a kernel log, or -"
    )
    parser.add_argument("--json", action="store_true", help=f"print the answer as JSON ({SCHEMA})")


def run(args: argparse.Namespace) -> int:
    """Explain codes and logs; the exit code is the worst of the logs'."""
    words: list[str] = args.what or (["-"] if not sys.stdin.isatty() else [])
    if not words:
        raise UsageError("nothing to explain", "give a code (oncall xid 79), a kernel log, or pipe one in")
    codes = [_code(word) for word in words if _is_number(word)]
    logs = [_read(word) for word in words if not _is_number(word)]
    for log in logs:
        if not log.known and not log.empty:
            sys.stderr.write(f"oncall: {neutral(log.name)} has no line of a kernel log; `oncall read` takes any file\n")
    if args.json:
        answer: dict[str, Json] = {
            "schema": SCHEMA,
            "codes": [_code_json(code) for code in codes],
            "files": [_log_json(log) for log in logs],
        }
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        blocks = [code_text(code) for code in codes]
        blocks += [log_text(log.name, log.parsed, empty=log.empty) for log in logs]
        sys.stdout.write("\n".join(blocks))
    return max(map(_outcome, logs), default=NOTHING_PAGES)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def _code(word: str) -> int:
    if len(word) > _DIGITS:
        raise UsageError(
            f"{word} is no code", "an Xid has up to three digits, an SXid five; for a file write ./" + word
        )
    return int(word)


def _read(name: str) -> _Log:
    from oncall.commands.read import content

    try:
        held = content(name)
    except UsageError as error:
        hint = error.hint or "a code is a number; anything else is taken for a file"
        raise UsageError(error.cause, hint) from error
    parsed = read_kernel(held.data, name)
    known = bool(parsed.events or parsed.unrecognised) or recognise(held.data) is Format.KERNEL
    return _Log(name, parsed, empty=not held.data, known=known, whole=held.whole)


def _outcome(log: _Log) -> int:
    page = log.parsed.summary["page"] if log.parsed.summary else False
    if page:
        return PAGES
    if log.empty or not log.known or not log.whole:
        return NO_EVIDENCE
    return UNDECIDED if page is None or log.parsed.unrecognised else NOTHING_PAGES


def _code_json(code: int) -> dict[str, Json]:
    if code >= FIRST_SXID:
        switch = lookup_sxid(code)
        known: dict[str, Json] = {"sxid": code, "known": switch is not None, "switch_unit": sxid_unit(code)}
        return known | ({} if switch is None else _plain(switch))
    meaning = lookup(code)
    if meaning is None:
        return {"xid": code, "known": False}
    return {"xid": code, "known": True, **_plain(meaning), "sources_disagree": meaning.sources_disagree}


def _plain(meaning: XidMeaning | SXidMeaning) -> dict[str, Json]:
    fields: dict[str, Json] = msgspec.to_builtins(meaning)
    return {name: value for name, value in fields.items() if name != "code"}


def _log_json(log: _Log) -> dict[str, Json]:
    parsed = log.parsed
    return {
        "file": log.name,
        "kernel_log": log.known,
        "whole": log.whole,
        "summary": dict(parsed.summary) if parsed.summary else None,
        "events": [_event_json(event) for event in parsed.events],
        "unrecognised": list(parsed.unrecognised),
    }


def _event_json(event: Event) -> dict[str, Json]:
    """An event with its UTC time, as far as the line alone tells it, and whether it should wake somebody."""
    placed = event_time(event, None)
    known = placed if isinstance(placed, EventTime) else None
    return {
        **event.as_json(),
        "at": None if known is None else known.at.isoformat().replace("+00:00", "Z"),
        "uncertainty_s": None if known is None else known.uncertainty_s,
        "page": should_page(event),
    }
