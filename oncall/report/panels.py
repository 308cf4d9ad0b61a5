"""A metric query as it is shown: the question, the verdict, the rows that prove it, and the query itself."""

from typing import Literal

import msgspec

PanelVerdict = Literal["suspect", "clear", "unknown"]


class PanelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One series: whose it is, its newest value, and what it was before, oldest first; a gap is None."""

    who: str
    value: float
    rank: int | None = None
    host: str | None = None
    gpu_index: int | None = None
    history: tuple[float | None, ...] = ()


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One query and its answer, the most telling rows first.

    `reason` is the sentence behind the verdict; of `unknown` it says what is missing. `unit` follows each value;
    `threshold` is what a value is held against, in the same unit; `newest_age_s` is the age of the newest sample.
    """

    question: str
    query: str
    verdict: PanelVerdict
    reason: str
    unit: str = ""
    threshold: float | None = None
    newest_age_s: float | None = None
    rows: tuple[PanelRow, ...] = ()
