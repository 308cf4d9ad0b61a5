"""What the on-call manual is made of."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of the manual; `code` is for a shell, `query` for Prometheus.

    `level` is that of a heading and `anchor` its name; a text or an item ends in a link to `anchor` that reads `label`.
    Words in backticks are code.
    """

    kind: Literal["heading", "text", "item", "code", "query"]
    text: str
    level: int = 0
    anchor: str | None = None
    label: str | None = None


def heading(level: int, text: str, anchor: str) -> Block:
    """A heading that links may lead to."""
    return Block("heading", text, level, anchor)


def text(words: str) -> Block:
    """A paragraph."""
    return Block("text", words)


def item(words: str, anchor: str | None = None, label: str | None = None) -> Block:
    """One of several in a list."""
    return Block("item", words, anchor=anchor, label=label)


def code(command: str) -> Block:
    """A command to paste into the shell of the console's machine."""
    return Block("code", command)


def query(promql: str) -> Block:
    """A query to paste into Prometheus."""
    return Block("query", promql)
