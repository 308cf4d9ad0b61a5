"""The decoded words of an NVLink5 Xid (144-150): unit, verdict, link and what the error words hold.

Layout of the interrupt word by NVIDIA's Xid catalogue (2025-10): drivers before R575 (`V1`) keep unit and sub-unit in
bits 9:0 and the link in 17:13, later ones (`V2`) the unit in bits 6:0; the event's status is in bits 25:20 in both.
"""

import re

from oncall.formats.event import Json
from oncall.formats.xid_catalogue import nvlink5_unit, nvlink5_units_from

_UNIT = re.compile(r"(?P<unit>[A-Z][A-Z0-9_]*)(?P<ended>\s+)?")
_VERDICT = re.compile(r"(?P<verdict>Fatal|Nonfatal)\s+")
_FLAGS = re.compile(r"XC\s?(?P<cross>\d+)\s+i\s?(?P<injected>\d+)\s+")
_LINK = re.compile(r"Link\s(?P<link>-?\d+)\s*\(")
_WORD = re.compile(r"0x[0-9a-fA-F]{8}\b")


def nvlink5_fields(text: str) -> dict[str, Json]:
    """`nvlink5` as the line says it, `nvlink5_decode` as the interrupt word says it, `truncated` for a line cut short.

    Words that the line does not reach are None. Empty for a text of another shape.
    """
    unit = _UNIT.match(text)
    if unit is None:
        return {}
    verdict = _VERDICT.match(text, unit.end())
    flags = None if verdict is None else _FLAGS.match(text, verdict.end())
    link = None if flags is None else _LINK.match(text, flags.end())
    words = [] if link is None else _WORD.findall(text, link.end())
    whole = link is not None and ")" in text[link.end() :]
    if verdict is None and unit["ended"] and not _cut(text[unit.end() :]):
        return {}
    name = unit["unit"] if unit["ended"] or nvlink5_units_from(unit["unit"]) == (unit["unit"],) else None
    shown: dict[str, Json] = {
        "unit": name,
        "fatal": None if verdict is None else verdict["verdict"] == "Fatal",
        "cross_context": None if flags is None else int(flags["cross"]),
        "injected": None if flags is None else flags["injected"] != "0",
        "link": None if link is None else int(link["link"]),
        "intr_info": words[0] if words else None,
        "error_status": words[1] if len(words) > 1 else None,
        "debug": list(words[2:]),
    }
    fields: dict[str, Json] = {"nvlink5": shown, "nvlink5_decode": _decode(name, words)}
    if not whole:
        fields["truncated"] = True
    return fields


def _cut(rest: str) -> bool:
    """Whether a line stops in the middle of its verdict."""
    return "Fatal".startswith(rest) or "Nonfatal".startswith(rest)


def _decode(name: str | None, words: list[str]) -> Json:
    """The name in the line is trusted; the layout is the one that agrees with it, None if neither does."""
    known = None if name is None else nvlink5_unit(name)
    if known is None or not words:
        return None
    word = int(words[0], 16)
    layout = "V1" if word & 0x3FF in known.v1_bits else "V2" if word & 0x7F in known.v2_bits else None
    variant = known.variant(word >> 20 & 0x3F, words[1] if len(words) > 1 else None)
    return {
        "layout": layout,
        "unit": name,
        "link": word >> 13 & 0x1F if layout == "V1" else None,
        "status": word >> 20 & 0x3F,
        "immediate": None if variant is None else variant.immediate,
        "follow_up": None if variant is None else variant.follow_up,
        "side": None if variant is None else variant.side,
    }
