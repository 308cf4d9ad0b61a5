"""Which format a file holds, told from its bytes alone, and which rank it belongs to, told from its path."""

import re
from enum import StrEnum

from oncall.formats.lines import Log, strip_colour
from oncall.formats.torchrun import ANCHORS

HEAD_BYTES = 256 * 1024
"""How much of a file decides; the end of a large one is looked at as well."""


class Format(StrEnum):
    """What a file is. `TEXT` fits nothing known and is read as a training log."""

    EMPTY = "empty"
    FLIGHT_RECORDER = "flight-recorder"
    KERNEL = "kernel-log"
    METRICS = "metrics"
    PYSPY = "py-spy"
    TRACE = "trace-jsonl"
    TRAINING = "training-log"
    TEXT = "text"


_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_RANK = re.compile(r"(?<![a-z])(?:global[_-])?rank[_-]?(\d{1,7})(?!\d)", re.IGNORECASE)
_NOT_GLOBAL = re.compile(r"(?:local|node|group|pg)[_-]?rank[_-]?\d+", re.IGNORECASE)
_PYSPY_TEXT = re.compile(
    r"^Process \d+: .*\nPython v|^(?:Error: .+|Permission Denied: .+)\n?(?:Reason: .+\n?)*\s*\Z", re.MULTILINE
)
_PYSPY_JSON = re.compile(rb'"owns_gil"\s*:')
_TRACE = re.compile(rb'\s*\{[^\n]*"log_type_name"\s*:')
_RECORDER_JSON = re.compile(rb'\{[^\0]*?"(?:pg_config|pg_status|nccl_version|comm_lib_version)"\s*:')
_METRICS_JSON = re.compile(rb'"(?:resultType|fingerprint|generatorURL|alertname)"\s*:')
_METRICS_TEXT = re.compile(rb"^(?:# (?:HELP|TYPE) [a-zA-Z_:]|[a-zA-Z_:][\w:]*\{[^}\n]*\} [-+.\dNI])", re.MULTILINE)
_KERNEL = re.compile(
    rb"\b(?:kernel: |NVRM: |nvidia_dev_xid: )|^\[ *\d+\.\d{6}\] |^\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) |^<\d+>\[? *\d"
    rb"|^\d+,\d+,\d+,[^;\n]*;",
    re.MULTILINE,
)


def rank_of_path(path: str) -> int | None:
    """The global rank that a path names: `rank3/stderr.log`, `dump-rank0.txt`, `training.global_rank_3.jsonl`.

    The last part of the path that names one wins. torchrun's own `<attempt>/<local_rank>/stderr.log` names none.
    """
    found = _RANK.findall(_NOT_GLOBAL.sub("", path))
    return int(found[-1]) if found else None


def _json_format(data: bytes) -> Format | None:
    head = data[:HEAD_BYTES]
    if _PYSPY_JSON.search(head):
        return Format.PYSPY
    if _TRACE.match(head):
        return Format.TRACE
    if _METRICS_JSON.search(head):
        return Format.METRICS
    return Format.FLIGHT_RECORDER if _RECORDER_JSON.match(head) else None


def _text_format(data: bytes) -> Format:
    ends = data[:HEAD_BYTES] if len(data) <= HEAD_BYTES else data[:HEAD_BYTES] + b"\n" + data[-HEAD_BYTES:]
    if _PYSPY_TEXT.search(strip_colour(ends.decode("utf-8", "replace"))):
        return Format.PYSPY
    if _METRICS_TEXT.search(ends):
        return Format.METRICS
    training = sum(1 for _ in Log(ends, "").candidates(ANCHORS))
    kernel = len({ends.rfind(b"\n", 0, found.start()) for found in _KERNEL.finditer(ends)})
    if kernel > training:
        return Format.KERNEL
    return Format.TRAINING if training else Format.TEXT


def recognise(data: bytes) -> Format:
    """The format of a file's bytes. A text that holds both kernel and training lines is what most of them are."""
    if not data.strip():
        return Format.EMPTY
    if _PICKLE.match(data):
        return Format.FLIGHT_RECORDER
    known = _json_format(data) if data.lstrip()[:1] in {b"{", b"["} else None
    return known or _text_format(data)
