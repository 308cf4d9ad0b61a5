"""The signs that stand beside words, in Unicode and in plain ASCII."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One sign for each meaning. Every set has the same meanings, and none of them stands without a word."""

    decided: str
    here: str
    passed_over: str
    unknown: str
    against: str
    overruled: str
    origin: str
    victims: str
    state: str
    branch: str
    last_branch: str
    trunk: str
    odd: str
    rule: str
    ellipsis: str
    spark: str


UNICODE = Glyphs(
    decided="✓",
    here="▶",
    passed_over="·",
    unknown="?",
    against="⚠",
    overruled="✎",
    origin="●",
    victims="○",
    state="■",
    branch="├─",
    last_branch="└─",
    trunk="│ ",
    odd="◀",
    rule="─",
    ellipsis="…",
    spark="▁▂▃▄▅▆▇",
)

ASCII = Glyphs(
    decided="+",
    here=">",
    passed_over=".",
    unknown="?",
    against="!",
    overruled="*",
    origin="@",
    victims="o",
    state="#",
    branch="|-",
    last_branch="`-",
    trunk="| ",
    odd="<",
    rule="-",
    ellipsis="...",
    spark="_.:-=+*#",
)


def ascii_only(text: str) -> str:
    """Text for a terminal that shows ASCII alone; what it cannot show is named, an ellipsis and a dash are kept."""
    return text.translate(_NEAR).encode("ascii", "backslashreplace").decode()


_NEAR = str.maketrans(dict(zip("…→←·▸│—─×", "~><.>|--x", strict=True)))  # noqa: RUF001
