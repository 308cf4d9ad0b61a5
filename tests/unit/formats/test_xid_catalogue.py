"""The catalogue against the published facts it was made from."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from oncall.formats.xid_catalogue import (
    lookup,
    lookup_sxid,
    nvlink5_unit,
    recovery_action,
    source_names,
    sxid_unit,
)

SHARED = Path(os.environ.get("ONCALL_SHARED", Path(__file__).resolve().parents[4] / "shared"))
FACTS = SHARED / "xid" / "xid_catalog.json"


@pytest.fixture(scope="module")
def facts() -> Any:
    if not FACTS.is_file():
        pytest.skip("the specification's catalogue is not there: set ONCALL_SHARED")
    return json.loads(FACTS.read_text())


def test_every_published_code_is_known_with_its_judgement(facts: Any) -> None:
    for fact in facts["xids"]:
        meaning = lookup(fact["code"])
        assert meaning is not None, fact["code"]
        assert meaning.unused == fact["listed_unused"]
        if fact["severity"] == "unknown":
            assert (meaning.meaning, meaning.severity, meaning.action, meaning.page) == (None,) * 4
            continue
        told = (meaning.cause_class, meaning.severity, meaning.action, meaning.page)
        assert told == tuple(fact[name] for name in ("cause_class", "severity", "action", "page"))


def test_codes_on_which_the_sources_disagree() -> None:
    disagreeing = [code for code in range(1, 300) if (meaning := lookup(code)) and meaning.sources_disagree]

    assert disagreeing == [31, 32, 38, 44, 54, 60, 63, 68, 69, 94, 108, 109, 121, 136, 160, 162]
    assert [code for code in range(10_000, 31_000) if (it := lookup_sxid(code)) and it.disagree] == [
        10003,
        10004,
        12030,
    ]


def test_who_says_what_about_a_disputed_code() -> None:
    meaning = lookup(109)

    assert meaning is not None
    assert meaning.levels["nvidia"] == "hard"
    assert meaning.levels["gpud"] == "soft"
    assert set(meaning.levels) <= set(meaning.sources) <= set(source_names())


@pytest.mark.parametrize("code", [0, 177, 184, 186, 231, 10**9, -1])
def test_a_code_of_no_table_is_none(code: int) -> None:
    assert lookup(code) is None


def test_switch_codes(facts: Any) -> None:
    for fact in facts["sxid"]["codes"]:
        meaning = lookup_sxid(fact["code"])
        assert meaning is not None
        assert (meaning.mnemonic, meaning.page) == (fact["mnemonic"], fact["page"])
    assert lookup_sxid(20099) is None
    assert sxid_unit(20099) == "data link layer (DLPL)"
    assert sxid_unit(99999) is None


def test_nvlink5_units(facts: Any) -> None:
    variants = 0
    for fact in facts["nvlink5_decode"]["units"]:
        unit = nvlink5_unit(fact["unit"])
        assert unit is not None
        assert int(fact["v1_bits_9_0"], 2) in unit.v1_bits
        assert int(fact["v2_bits_6_0"], 2) in unit.v2_bits
        for row in fact["variants"]:
            variant = unit.variant(row["status_bits_25_20"], row["error_status"])
            assert variant is not None
            assert (variant.immediate, variant.follow_up) == (row["immediate"], row["follow_up"])
            variants += 1
    assert variants == 94


def test_recovery_actions() -> None:
    assert [recovery_action(code) for code in range(7)] == [
        "None",
        "GPU Reset Required",
        "Node Reboot Required",
        "Drain P2P",
        "Drain and Reset",
        "Recover IMEX Domain",
        None,
    ]


def test_words_fit_after_a_colon() -> None:
    for code in range(1, 186):
        meaning = lookup(code)
        if meaning is not None and meaning.meaning is not None:
            assert not meaning.meaning.endswith(".")
            assert meaning.note is None or meaning.note.endswith(".")
