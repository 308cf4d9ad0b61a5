"""Numbers as logs print them: thousands separators, NAN and INF, units at the end."""

import math
import re

_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_NOT_FINITE = {"nan": "nan", "inf": "inf", "+inf": "inf", "-inf": "-inf", "infinity": "inf", "-infinity": "-inf"}


def number(text: str | None) -> float | int | str | None:
    """The number that `text` begins with: an int if so written, else a float; not finite: "nan", "inf" or "-inf".

    None for anything else, such as `N/A`. A unit may follow (`42.01GiB`, `0.50%`); commas separate thousands.
    """
    text = (text or "").strip()
    if named := _NOT_FINITE.get(text.lower()):
        return named
    match = _NUMBER.match(text)
    if match is None:
        return None
    digits = match[0].replace(",", "")
    if digits.lstrip("+-").isdigit() and len(digits) < 20:
        return int(digits)
    value = float(digits)
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def finite(text: str | None) -> float | None:
    """As `number`, as a float, and None for what is not finite."""
    value = number(text)
    return None if value is None or isinstance(value, str) else float(value)


def count(text: str | None) -> int | None:
    """As `number`, for whole numbers only."""
    value = number(text)
    return value if isinstance(value, int) else None
