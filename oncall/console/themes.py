"""The two looks of the console, and which of them suits the terminal."""

from collections.abc import Mapping
from typing import NamedTuple

from rich.style import Style
from textual.theme import Theme

from oncall.console.lines import Tone

_DARK = {
    "rule": "#3a424c",
    "dim": "#8f98a3",
    "bad": "#ff8078",
    "warn": "#e3b341",
    "good": "#5fd07a",
    "here": "#7cc0ff",
    "cursor": "#1d3d63",
}
_LIGHT = {
    "rule": "#b4bcc6",
    "dim": "#56606b",
    "bad": "#a8201a",
    "warn": "#7d5200",
    "good": "#1a6b30",
    "here": "#0a4fa3",
    "cursor": "#c6dcf7",
}
"""Each at least 4.5 : 1 against the background and the panel of its theme (WCAG 2.2, 1.4.3)."""

THEMES = (
    Theme(
        name="dark",
        primary="#7cc0ff",
        background="#111417",
        surface="#111417",
        panel="#20272f",
        foreground="#dfe3e8",
        dark=True,
        variables=_DARK,
    ),
    Theme(
        name="light",
        primary="#0a4fa3",
        background="#fbfbfa",
        surface="#fbfbfa",
        panel="#e4e8ed",
        foreground="#1e2329",
        dark=False,
        variables=_LIGHT,
    ),
)


class Paint(NamedTuple):
    """The styles of rows: one for each tone, one for the row under the cursor, with and without the focus."""

    tones: Mapping[Tone, Style]
    cursor: Style
    mark: Style


def paint(theme: Theme) -> Paint:
    """The styles of a theme."""
    colours = {**_DARK, **theme.variables}
    coloured = {Tone.DIM, Tone.WARN, Tone.GOOD, Tone.BAD, Tone.HERE}
    bold = {Tone.STRONG, Tone.BAD, Tone.HERE}
    tones = {
        tone: Style(color=colours[tone] if tone in coloured else None, bold=True if tone in bold else None)
        for tone in Tone
    }
    return Paint(tones, Style(bgcolor=colours["cursor"]), Style(bgcolor=theme.panel))


def theme_for(environment: Mapping[str, str]) -> str:
    """`light` where the terminal says so by COLORFGBG ("foreground;background", rxvt's and others'), else `dark`."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in {"7", "15"} else "dark"
