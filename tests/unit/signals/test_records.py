"""Lines of a trainer's JSONL, as trainers and as enemies write them."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncall.signals.records import MAX_FIELDS, read_record
from oncall.signals.trainer_signals import OBSERVED

NOW = 1_796_000_000.0


def read(line: str | bytes, rank: int | None = None) -> dict[str, float | None] | None:
    found = read_record(line.encode() if isinstance(line, str) else line, rank, NOW)
    return None if found is None else dict(found.values)


def test_a_whole_record() -> None:
    found = read_record(b'{"t": 1795999990.5, "step": 51300, "rank": 293, "loss": 2.1, "skipped": true}', None, NOW)
    assert found is not None
    assert (found.rank, found.time, found.step) == (293, 1795999990.5, 51300)
    assert found.values == {"loss": 2.1, "skipped": 1.0}


def test_rank_of_the_file_where_the_record_is_silent() -> None:
    assert getattr(read_record(b'{"step": 1}', 7, NOW), "rank", None) == 7
    assert getattr(read_record(b'{"step": 1, "rank": 3}', 7, NOW), "rank", None) == 3
    assert getattr(read_record(b'{"step": 1}', None, NOW), "rank", 0) is None


@pytest.mark.parametrize("said", ["NaN", "Infinity", "-Infinity", '"nan"', '"-inf"', '"Infinity"', "1e999"])
def test_not_finite_is_a_number(said: str) -> None:
    value = (read(f'{{"loss": {said}}}') or {})["loss"]
    assert value is not None
    assert not math.isfinite(value)


def test_null_is_not_known_any_more() -> None:
    assert read('{"step": 3, "loss": null}') == {"loss": None}


@pytest.mark.parametrize(
    "line",
    ["", "{", "[1]", "3", '"loss"', "{}", '{"loss": "low"}', "[" * 100_000, '{"step": 1}{"step": 2}', b"\xff\xfe"],
)
def test_what_is_no_record(line: str | bytes) -> None:
    assert read(line) is None


@pytest.mark.parametrize("name", ["1st", "a b", "", "a" * 65, 'x"} 1\ny{z="', "train_\u00e9", "\u001b[31m"])
def test_names_that_no_metric_can_have_are_left_out(name: str) -> None:
    assert read(json.dumps({"step": 1, name: 5})) == {}


def test_what_the_exporter_finds_out_itself_cannot_be_overwritten() -> None:
    assert read(json.dumps({"step": 1} | {signal.name: 1 for signal in OBSERVED})) == {}


def test_nested_and_text_and_huge_numbers_are_left_out() -> None:
    line = '{"step": 1, "a": {"b": 1}, "c": [1], "d": "x", "e": ' + "9" * 400 + ', "f": 2, "g/h.i": 3}'
    assert read(line) == {"f": 2.0, "g_h_i": 3.0}


def test_number_of_fields_is_bounded() -> None:
    assert len(read(json.dumps({f"f{n}": n for n in range(10 * MAX_FIELDS)})) or {}) == MAX_FIELDS


@pytest.mark.parametrize("t", ["null", '"soon"', str(NOW + 3600), str(NOW * 1000), "12.5", "NaN", "-1"])
def test_time_that_cannot_be_is_the_files(t: str) -> None:
    """A time in milliseconds or ahead of the clock would keep a stalled run looking alive for ever."""
    found = read_record(f'{{"t": {t}, "step": 1}}'.encode(), 0, NOW)
    assert found is not None
    assert found.time == NOW


@pytest.mark.parametrize("step", ["1.5", "-1", "NaN", '"7"', "null"])
def test_step_that_cannot_be_is_none(step: str) -> None:
    found = read_record(f'{{"step": {step}, "loss": 1}}'.encode(), 0, NOW)
    assert found is not None
    assert found.step is None


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(line: bytes) -> None:
    read(line)


@given(
    st.dictionaries(st.text(max_size=20), st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()))
)
def test_any_object_is_read_or_refused(record: dict[str, object]) -> None:
    for value in (read(json.dumps(record)) or {}).values():
        assert value is None or isinstance(value, float)
