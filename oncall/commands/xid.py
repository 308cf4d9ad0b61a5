"""Explain NVIDIA Xid and NVSwitch SXid codes, or read a kernel log and explain what it holds.

`oncall xid 79` explains a code; `oncall xid FILE` or `oncall xid < FILE` reads dmesg, journalctl or kern.log in any of
their time formats. Exit code: 0 nothing in the log should wake anybody, 10 something should, 11 something may, since no
table knows it, 12 the log is empty. Explaining codes always ends with 0.
"""

import argparse
import json
import sys
from pathlib import Path

import msgspec

from oncall.errors import UsageError
from oncall.formats.event import Event, Json, Parsed
from oncall.formats.kernel import read_kernel
from oncall.formats.kernel_summary import should_page
from oncall.formats.kernel_time import EventTime, event_time
from oncall.formats.xid_catalogue import FIRST_SXID, SXidMeaning, XidMeaning, lookup, lookup_sxid, sxid_unit
from oncall.report.xid_text import code_text, log_text

SCHEMA = "oncall.xid/1"
NOTHING_PAGES, PAGES, UNDECIDED, NO_EVIDENCE = 0, 10, 11, 12

MAX_BYTES = 4 * 1024**3
_DIGITS = 5


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
    logs = [(word, *_read(word)) for word in words if not _is_number(word)]
    if args.json:
        answer: dict[str, Json] = {
            "schema": SCHEMA,
            "codes": [_code_json(code) for code in codes],
            "files": [_log_json(name, parsed) for name, _, parsed in logs],
        }
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        blocks = [code_text(code) for code in codes] + [
            log_text(name, parsed, empty=not size) for name, size, parsed in logs
        ]
        sys.stdout.write("\n".join(blocks))
    return max((_outcome(size, parsed) for _, size, parsed in logs), default=NOTHING_PAGES)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()


def _code(word: str) -> int:
    if len(word) > _DIGITS:
        raise UsageError(
            f"{word} is no code", "an Xid has up to three digits, an SXid five; for a file write ./" + word
        )
    return int(word)


def _read(name: str) -> tuple[int, Parsed]:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{name}: {error.strerror}", "a code is a number; anything else is taken for a file"
        ) from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{name} is larger than {MAX_BYTES >> 30} GiB", "cut out the time of the incident")
    return len(data), read_kernel(data, name)


def _outcome(size: int, parsed: Parsed) -> int:
    if not size:
        return NO_EVIDENCE
    page = parsed.summary["page"] if parsed.summary else False
    return PAGES if page else UNDECIDED if page is None or parsed.unrecognised else NOTHING_PAGES


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


def _log_json(name: str, parsed: Parsed) -> dict[str, Json]:
    return {
        "file": name,
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
