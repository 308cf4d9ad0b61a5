"""What one line of a log, kernel ring or stack dump says, whatever program wrote it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a file says happened.

    `kind` is from the vocabulary of `oncall.formats.kinds`. Lines are 1-based and end at `\\n`; an event of several
    lines has `first_line < last_line`. A field that the text does not tell is None, never 0 or "".
    """

    kind: str
    file: str
    first_line: int
    last_line: int
    fields: Mapping[str, Json]

    def as_json(self) -> dict[str, Json]:
        """The event as `oncall read --json` prints it; `line` is a number, or [first, last] over several lines."""
        line: Json = self.first_line if self.first_line == self.last_line else [self.first_line, self.last_line]
        return {"kind": self.kind, "file": self.file, "line": line, **self.fields}

    def number(self, name: str) -> int | None:
        """The whole number in field `name`; None when it is absent or of another type."""
        value = self.fields.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def text(self, name: str) -> str | None:
        """The string in field `name`; None when it is absent or of another type."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Parsed:
    """All that one file says: its events in line order, and the lines that look like one but could not be read."""

    events: tuple[Event, ...]
    unrecognised: tuple[int, ...] = ()
    summary: Mapping[str, Json] | None = None
