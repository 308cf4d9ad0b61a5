"""A metric query as it is shown: the question, the verdict, the rows that prove it, and the query itself."""

from typing import Literal

import msgspec

PanelVerdict = Literal["suspect", "clear", "unknown"]
Side = Literal["above", "below"]


class PanelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One series: whose it is, its value now, and its points of before and of now, oldest first; a gap is None.

    `before` is its value in the stretch that now is compared with and `limit` what the reading holds it against, None
    where that is not known. `accused` is the reading's own word: a finding of the verdict names it.
    """

    who: str
    value: float
    before: float | None = None
    limit: float | None = None
    accused: bool = False
    rank: int | None = None
    host: str | None = None
    gpu_index: int | None = None
    history: tuple[float | None, ...] = ()


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One query and its answer, the rows that the verdict accuses first.

    `reason` is the sentence behind the verdict; of `unknown` it says what is missing. `unit` follows each value; `bad`
    is the side of its limit that is wrong; `newest_age_s` is the age of the newest sample.
    """

    question: str
    query: str
    verdict: PanelVerdict
    reason: str
    unit: str = ""
    bad: Side = "above"
    newest_age_s: float | None = None
    rows: tuple[PanelRow, ...] = ()
