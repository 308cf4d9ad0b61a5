"""A metric query as it is shown: the question, the verdict, the rows that prove it, and the query itself."""

from typing import Literal

import msgspec

PanelVerdict = Literal["suspect", "clear", "unknown"]
Side = Literal["above", "below"]


class PanelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One series: whose it is, its value now, and its points of before and of now, oldest first; a gap is None.

    `before` is its value in the stretch that now is compared with, None where that is not known.
    """

    who: str
    value: float
    before: float | None = None
    rank: int | None = None
    host: str | None = None
    gpu_index: int | None = None
    history: tuple[float | None, ...] = ()


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One query and its answer, the most telling rows first.

    `reason` is the sentence behind the verdict; of `unknown` it says what is missing. `unit` follows each value;
    `threshold` is what a value is held against, in the same unit, and `bad` the side of it that is wrong;
    `newest_age_s` is the age of the newest sample.
    """

    question: str
    query: str
    verdict: PanelVerdict
    reason: str
    unit: str = ""
    threshold: float | None = None
    bad: Side = "above"
    newest_age_s: float | None = None
    rows: tuple[PanelRow, ...] = ()

    def is_bad(self, value: float) -> bool:
        """Whether a value lies on the wrong side of the threshold; no value does where there is none."""
        if self.threshold is None:
            return False
        return value < self.threshold if self.bad == "below" else value > self.threshold
