"""What the process of a triage tells the screens. It imports nothing that takes time: the first paint waits for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from oncall.console.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RawText:
    """Lines of one rank's evidence, or one line that says why there are none; `by_hand` asks the node the same."""

    title: str
    lines: tuple[str, ...]
    by_hand: str | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """What became of something that the operator asked for."""

    text: str


Told: TypeAlias = Snapshot | RawText | Word
Listener: TypeAlias = Callable[[Told], None]
