"""What stands before the message on a line of a kernel log: time, host, priority, and a collector's own prefix.

Forms are those of util-linux dmesg, systemd journalctl and rsyslog, `/dev/kmsg` (kernel ABI/testing/dev-kmsg) and
ftrace.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from oncall.formats.event import Json

_MONTH = r"[^\W\d_]{3,5}\.?"
_CLOCK = r"\d\d:\d\d:\d\d(?:\.\d{1,9})?"
_CALLER = r"(?:\[\s*[TC]\d+\])?"
_UPTIME = rf"\[\s*(?P<uptime>\d{{1,12}}\.\d{{6}})(?: <\s*[\d.]+>)?\]{_CALLER} ?"
_DELTA = r"\[(?:\s*\+|<\s*)(?P<delta>\d{1,12}\.\d{6})>?\] ?"
_MINUTE = rf"\[(?P<minute_month>{_MONTH})\s*(?P<minute_day>\d{{1,2}}) (?P<minute>\d\d:\d\d)\] ?"
_HUMAN = (
    rf"\[[^\]\s\d]{{2,6}}\s+(?P<human_month>{_MONTH})\s+(?P<human_day>\d{{1,2}}) (?P<human_clock>{_CLOCK}) "
    r"(?P<human_year>\d{4})(?: <\s*[\d.]+>)?\] ?"
)
_KERNEL_TAG = r"\s+kernel: ?"
_CLASSIC = rf"(?P<month>{_MONTH})\s+(?P<day>\d{{1,2}}) (?P<clock>{_CLOCK}) (?P<host>\S{{1,255}}){_KERNEL_TAG}"
_ISO_STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE = r"(?:Z|[+-]\d\d:?\d\d)"
_ISO = rf"(?P<iso>{_ISO_STAMP})(?P<zone>{_ZONE}) (?P<iso_host>\S{{1,255}}){_KERNEL_TAG}"
_ISO_DMESG = rf"(?P<dmesg_iso>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{{6}})(?P<dmesg_zone>{_ZONE}) "
_KMSG = r"(?P<prio>\d{1,4}),(?P<seq>\d{1,20}),(?P<usec>\d{1,20}),[^;]{0,80};"
_TRACE = (
    r"\s*\S.{0,15}-\d+\s+(?:\(\s*[\d-]+\)\s+)?\[\d+\]\s+(?:\S{4,6}\s+)?(?P<trace_clock>\d{1,12}\.\d{1,9}): (?=\w+: )"
)
_ODD = r"(?P<odd_host>\S{1,255}) kernel: ?"  # whatever stands before the host: short-full, short-unix, other locales
_LEVEL = r"[a-z]{3,8}[0-7]?\s*:(?:emerg|alert|crit|err|warn|notice|info|debug)\s*:\s"

_STAMPED = re.compile(
    rf"(?:<(?P<raw_prio>\d{{1,3}})>|{_LEVEL})?"
    rf"(?:{_KMSG}|(?:{_CLASSIC}|{_ISO}|{_ODD})(?:\[\s*(?P<inner>\d{{1,12}}\.\d{{6}})\]{_CALLER} ?)?"
    rf"|{_ISO_DMESG}|{_UPTIME}|{_DELTA}|{_MINUTE}|{_HUMAN}|{_TRACE})"
    rf"|<(?P<lone_prio>\d{{1,3}})>|{_LEVEL}"
)
_REPEATED = re.compile(r"message repeated (?P<times>\d{1,9}) times: \[ ?(?P<message>.*?)\]?$")

_COLLECTOR = re.compile(
    rf"{_ISO_STAMP}{_ZONE} (?:(?:stdout|stderr) [FP] )?"  # CRI log files, `kubectl logs --timestamps`
    r"|\[(?:pod|container)/[^\]\s]{1,200}\] "  # `kubectl logs --prefix`
    r"|[\w.-]{1,80}\s*\| "  # docker compose
    r'|\{"log":"'  # docker's json-file
)
_OTHER_PROCESS = re.compile(
    r"(?:^|\s)[\w.@/()-]{1,64}\[\d+\]: |\baudit(?:\(|: )|[\"'=]$"
    rf"|^(?:{_MONTH}\s+\d{{1,2}} {_CLOCK}|{_ISO_STAMP}{_ZONE}) \S{{1,255}} (?!kernel:)[\w.@/-]{{1,64}}: "
)
_DRIVER_TAG = re.compile(r"\s(?=NVRM: |nvidia-nvswitch\d)")
_MAX_PREFIX = 256
"""Characters of a line among which a collector's prefix may end; a bound on what a hostile line can cost."""
_MAX_ENVELOPES = 4
_DOCKER_TAIL = re.compile(r'(?:\\n)?","(?:stream|time|attrs)":.*$')


@dataclass(frozen=True, slots=True)
class Envelope:
    """Time and origin of one line, each as far as the line tells it.

    `ts` is ISO 8601 with what the line holds: no year from classic syslog, no zone from `dmesg -T`, `MM-DDThh:mm` from
    the dated lines of `dmesg -e`. `uptime_s` is the kernel's own clock, `delta_s` the time since the line before.
    """

    ts: str | None = None
    uptime_s: float | None = None
    host: str | None = None
    delta_s: float | None = None
    kmsg_priority: int | None = None
    kmsg_seq: int | None = None
    via: str | None = None
    repeated: int | None = None

    def as_fields(self) -> dict[str, Json]:
        """The envelope's share of an event: time and host always, the rest only where the form has it."""
        fields: dict[str, Json] = {"ts": self.ts, "uptime_s": self.uptime_s, "host": self.host}
        rare = {
            "delta_s": self.delta_s,
            "kmsg_priority": self.kmsg_priority,
            "kmsg_seq": self.kmsg_seq,
            "via": self.via,
            "repeated": self.repeated,
        }
        fields.update((name, value) for name, value in rare.items() if value is not None)
        return fields


def readings_of(line: str) -> Iterator[tuple[Envelope, str]]:
    """Every way to part a line into envelope and message, the likeliest first.

    A collector may put any prefix before the envelope; text of another process that quotes a kernel line is none.
    """
    yield _opened(line, _STAMPED.match(line), 0)
    collector = _COLLECTOR.match(line)
    if collector is not None:
        inner = line[collector.end() :]
        inner = _DOCKER_TAIL.sub("", inner) if collector[0].startswith("{") else inner
        yield _opened(inner, _STAMPED.match(inner), 0)
    for later in islice(_STAMPED.finditer(line, 1, 2 * _MAX_PREFIX), _MAX_ENVELOPES):
        if later.start() <= _MAX_PREFIX and _OTHER_PROCESS.search(line, 0, later.start()) is None:
            yield _opened(line, later, later.start())
    tag = _DRIVER_TAG.search(line, 0, 2 * _MAX_PREFIX)
    if tag is not None and _OTHER_PROCESS.search(line, 0, tag.end()) is None:
        yield Envelope(), line[tag.end() :]


def _opened(line: str, head: re.Match[str] | None, start: int) -> tuple[Envelope, str]:
    envelope = Envelope() if head is None else _envelope(head)
    message = line[start if head is None else head.end() :]
    folded = _REPEATED.match(message)
    if folded is None:
        return envelope, message
    inner, text = _opened(folded["message"], _STAMPED.match(folded["message"]), 0)
    uptime_s = envelope.uptime_s if inner.uptime_s is None else inner.uptime_s
    return replace(envelope, repeated=int(folded["times"]), uptime_s=uptime_s), text


def _envelope(head: re.Match[str]) -> Envelope:
    held = head.groupdict()
    clocks = [held.get(name) for name in ("uptime", "inner", "trace_clock")]
    uptime_s = next((float(clock) for clock in clocks if clock is not None), None)
    usec, priority = held.get("usec"), held.get("prio") or held.get("raw_prio") or held.get("lone_prio")
    delta, seq = held.get("delta"), held.get("seq")
    return Envelope(
        ts=_timestamp(held),
        uptime_s=int(usec) / 1e6 if usec is not None else uptime_s,
        host=held.get("host") or held.get("iso_host") or held.get("odd_host"),
        delta_s=None if delta is None else float(delta),
        kmsg_priority=None if priority is None else int(priority),
        kmsg_seq=None if seq is None else int(seq),
        via="tracepoint" if held.get("trace_clock") else None,
    )


def _timestamp(held: dict[str, str | None]) -> str | None:
    for stamp, zone in (("iso", "zone"), ("dmesg_iso", "dmesg_zone")):
        if held.get(stamp) is not None:
            offset = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", held[zone] or "")
            return f"{held[stamp]}".replace(",", ".") + offset
    for month, day, clock, year in (
        ("month", "day", "clock", None),
        ("human_month", "human_day", "human_clock", "human_year"),
        ("minute_month", "minute_day", "minute", None),
    ):
        name = held.get(month)
        if name is not None and (number := month_number(name)) is not None:
            return (f"{held[year]}-" if year else "") + f"{number:02}-{int(held[day] or 0):02}T{held[clock]}"
    return None


# Abbreviations of strftime %b in the locales of glibc for English, German, French, Spanish, Italian, Dutch, Portuguese
# and the Scandinavian languages, without accents and cut to what tells them apart.
_MONTHS = {
    name: month
    for month, names in enumerate(
        (
            "jan ene gen",
            "feb fev",
            "mar mrt mae",
            "apr abr avr",
            "may mai mag mei maj",
            "jun juin giu",
            "jul juil lug",
            "aug aou ago",
            "sep set",
            "oct okt ott out",
            "nov",
            "dec dez dic des",
        ),
        start=1,
    )
    for name in names.split()
}


def month_number(name: str) -> int | None:
    """1-12 for a month's abbreviation in any of the usual locales, whatever its case; None for an unknown word."""
    plain = unicodedata.normalize("NFKD", name.rstrip(".").lower()).encode("ascii", "ignore").decode()
    return _MONTHS.get(plain[:4]) or _MONTHS.get(plain[:3])
