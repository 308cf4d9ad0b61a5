"""The raw evidence of one rank, as a screen is given it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RawText:
    """Lines of one rank's evidence, or one line that says why there are none; `by_hand` asks the node the same."""

    title: str
    lines: tuple[str, ...]
    by_hand: str | None = None
