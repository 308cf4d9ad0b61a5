"""NVSwitch errors (SXid): a verdict line, and the severity and data lines that belong to it.

Grammar of the NVIDIA nvswitch driver (`NVSWITCH_PRINT_SXID`); its PCI address carries a function number.
"""

import re

from oncall.formats.event import Json
from oncall.formats.kernel_address import gpu_address
from oncall.formats.kernel_line import Following, Reading, Signature
from oncall.formats.xid_catalogue import lookup_sxid, sxid_unit

DETAIL = "sxid_detail"
"""Kind of a severity or data line; it is no event of its own, but joins the verdict before it."""

_HEAD = re.compile(
    r"nvidia-nvswitch(?P<switch>\d{1,4}): SXid \(PCI:(?P<pci>[0-9A-Fa-f:.]{7,20})\): (?P<code>\d{5}), (?P<rest>.*)$"
)
_VERDICT = re.compile(
    r"(?P<verdict>Fatal|Non-fatal|Correctable), (?:Link (?P<link>\d+) )?(?P<text>.*?)(?P<first> \(First\))?\s*$"
)
_SEVERITY = re.compile(r"Severity (?P<severity>\d+) Engine instance (?P<engine>\d+) Sub-engine instance (?P<sub>\d+)")
_DATA = re.compile(r"Data \{(?P<words>[^}]*)\}?")


def _read_sxid(message: str, _following: Following) -> Reading | None:
    head = _HEAD.match(message)
    if head is None:
        return None
    code = int(head["code"])
    common: dict[str, Json] = {"sxid": code, "switch": int(head["switch"]), "pci": gpu_address(head["pci"])}
    rest = head["rest"]
    severity, data = _SEVERITY.match(rest), _DATA.match(rest)
    if severity is not None:
        engine, sub_engine = int(severity["engine"]), int(severity["sub"])
        detail = {"severity_code": int(severity["severity"]), "engine": engine, "sub_engine": sub_engine}
        return Reading(DETAIL, {**common, **detail})
    if data is not None:
        words: list[Json] = [word.strip() for word in data["words"].split(",") if word.strip()]
        return Reading(DETAIL, {**common, "data": words})
    verdict = _VERDICT.match(rest)
    return Reading("sxid", {**common, **_known(code), **_verdict(verdict, rest)})


def _verdict(verdict: re.Match[str] | None, rest: str) -> dict[str, Json]:
    if verdict is None:
        return {"verdict": None, "link": None, "text": rest.strip() or None, "first": None}
    link = verdict["link"]
    return {
        "verdict": verdict["verdict"],
        "link": None if link is None else int(link),
        "text": verdict["text"] or None,
        "first": verdict["first"] is not None,
    }


def _known(code: int) -> dict[str, Json]:
    return {"known": lookup_sxid(code) is not None, "switch_unit": sxid_unit(code)}


def orphan(detail: dict[str, Json]) -> dict[str, Json]:
    """The fields of an event whose verdict line the log has lost."""
    return {**detail, **_known(int(str(detail["sxid"]))), "verdict": None, "link": None, "text": None, "first": None}


SIGNATURES = (Signature(b"nvidia-nvswitch", _read_sxid),)
