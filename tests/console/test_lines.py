"""Rows and spans: whatever a node says, it stays in its own cells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from oncall.console.lines import Column, Span, Tone, fit, head_row, safe, say, table_spans, wrap

HOSTILE = {
    "clears the screen": "\x1b[2J\x1b[H",
    "sets the title": "\x1b]0;owned\x07",
    "8-bit control": "\x9b31m",
    "carriage return": "node001\rnode666",
    "right to left override": "\u202enode001",
    "hebrew letters": "\u05d0\u05d1\u05d2",
    "zero width joiner": "a\u200db",
    "combining marks": "a" + "\u0301" * 40,
    "variation selector": "\u2764\ufe0f",
    "tag characters": "\U000e0041",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_becomes_plain_cells(text: str) -> None:
    shown = safe(text)
    assert shown.isprintable()
    assert all(ord(character) < 128 or cell_len(character) >= 1 for character in shown)
    assert not any(character in shown for character in "\u05d0\u202e\u200d\u0301\ufe0f")


def test_a_megabyte_is_cut_and_the_cut_is_told() -> None:
    shown = safe("x" * 1_000_000)
    assert len(shown) < 2100
    assert "1,000,000 characters" in shown


@pytest.mark.parametrize(
    "text", ["plain", "日本語のホスト名", "é", "", "x" * 50], ids=["plain", "wide", "accent", "empty", "long"]
)
@pytest.mark.parametrize("width", [1, 2, 7, 40])
def test_fit_takes_exactly_its_width(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width


def test_a_wide_cell_does_not_move_the_next() -> None:
    columns = (Column("node", 8), Column("why", 0))
    plain, wide = (table_spans(columns, (say(host), say("refused"))) for host in ("node001", "日本語ノード九"))
    where = [cell_len(spans[0].text) for spans in (plain, wide)]
    assert where[0] == where[1] == cell_len(head_row(columns).text) - len("why")


@given(
    st.lists(st.tuples(st.text(max_size=60), st.sampled_from(Tone)), max_size=5),
    st.integers(8, 60),
    st.integers(0, 6),
)
def test_wrapped_lines_fit_and_lose_nothing(parts: list[tuple[str, Tone]], width: int, hang: int) -> None:
    spans = [say(text, tone) for text, tone in parts]
    lines = wrap(spans, width, hang)
    assert all(sum(cell_len(span.text) for span in line) <= width for line in lines)
    told = "".join(span.text for line in lines for span in line).replace(" ", "")
    assert told == "".join(span.text for span in spans).replace(" ", "")


def test_each_word_keeps_its_tone() -> None:
    lines = wrap([Span("rank 5 ", Tone.BAD), Span("waits for its data loader", Tone.DIM)], 12, 2)
    tones = {tone: [span.text for line in lines for span in line if span.tone is tone] for tone in Tone}
    assert " ".join(tones[Tone.BAD]).split() == ["rank", "5"]
    assert " ".join(tones[Tone.DIM]).split() == ["waits", "for", "its", "data", "loader"]
