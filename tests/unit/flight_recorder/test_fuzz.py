"""Damaged and invented dumps: nothing but a verdict or a refusal comes out, whatever goes in."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from handwritten import completed, dump, entry
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncall.flight_recorder import analyse, as_json, load_blobs
from oncall.flight_recorder.listing import list_entries
from oncall.flight_recorder.report import as_text

QUIET = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

FRAME = {"name": "all_reduce", "filename": "/w/train.py", "line": 3}
BASE = [
    pickle.dumps(dump([completed(1, frames=[FRAME]), completed(2), entry(3, frames=[FRAME])], world=3), protocol=2),
    json.dumps(dump([completed(1), entry(2)], world=3)).encode(),
]


def survive(files: list[tuple[str, bytes]]) -> None:
    """Load, analyse and print; every way out must be a value."""
    dumps = load_blobs(files)
    assert len(dumps.dumps) + len(dumps.refused) <= len(files)
    analysis = analyse(dumps)
    json.dumps(as_json(analysis))
    assert all(line.isprintable() for line in as_text(analysis).splitlines())
    list(list_entries(dumps, None, None))


@QUIET
@given(st.sampled_from(BASE), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=12))
def test_flipped_bytes(base: bytes, flips: list[tuple[int, int]]) -> None:
    data = bytearray(base)
    for place, value in flips:
        data[place % len(data)] = value
    survive([("rank_0", bytes(data)), ("rank_1", base)])


@QUIET
@given(st.sampled_from(BASE), st.integers(0, 10_000))
def test_cut_files(base: bytes, length: int) -> None:
    survive([("rank_0", base[: length % len(base)]), ("rank_1", base)])


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(scalars, inner, max_size=4))
numbers = st.integers(-3, 12) | st.integers() | scalars
ENTRY_KEYS = sorted({**entry(1), "frames": None, "duration_ms": None})


@st.composite
def odd_entries(draw: st.DrawFn) -> dict[str, Any]:
    """An entry that is right in most keys and anything at all in some."""
    row = draw(st.sampled_from([entry, completed]))(draw(st.integers(0, 6)))
    for key in draw(st.lists(st.sampled_from(ENTRY_KEYS), max_size=4)):
        row[key] = draw(numbers if key.endswith("_id") else values)
    return row


@st.composite
def odd_dumps(draw: st.DrawFn) -> dict[str, Any]:
    """A dump with such entries, and now and then anything at all in place of a table."""
    content = dump(draw(st.lists(odd_entries() | values, max_size=8)), world=draw(st.integers(1, 4)))
    for key in draw(st.lists(st.sampled_from(sorted(content)), max_size=2)):
        content[key] = draw(values)
    return content


@QUIET
@given(st.lists(odd_dumps(), min_size=1, max_size=4))
def test_invented_dumps(contents: list[dict[str, Any]]) -> None:
    survive([(f"rank_{rank}", pickle.dumps(content, protocol=2)) for rank, content in enumerate(contents)])


@pytest.mark.parametrize("case", ["02_skip_all_reduce", "07_loader_exhausted"])
def test_flipped_bytes_of_recorded_dumps(material: Path, case: str) -> None:
    files = [(path.name, path.read_bytes()) for path in sorted((material / "real" / case / "dumps").iterdir())]

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=6))
    def flip(flips: list[tuple[int, int]]) -> None:
        data = bytearray(files[0][1])
        for place, value in flips:
            data[place % len(data)] = value
        survive([(files[0][0], bytes(data)), *files[1:3]])

    flip()
