"""Numbers as files and nodes spell them, where anything may stand instead."""

import re

_WHOLE = re.compile(r"-?[0-9]{1,19}")


def whole(text: str | None) -> int | None:
    """The whole number that `text` spells in ASCII digits, of a size that a log can mean; else None."""
    return int(text) if text and _WHOLE.fullmatch(text) else None
