"""The published schema of a playbook takes what the loader takes, whole or extending, and refuses what it refuses."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from oncall.playbook.loader import shipped
from oncall.playbook.schema import playbook_schema

from .test_extends import OWN
from .test_lint import GOOD

SCHEMA = playbook_schema()
TYPES = {"object": dict, "array": list, "string": str, "null": type(None)}
KNOWN = {"title", "description", "default", "$schema", "$defs"}
"""Keywords that refuse nothing."""


def fits(value: Any, schema: dict[str, Any]) -> bool:
    return not list(_mistakes(value, schema))


def _mistakes(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    """Those keywords of JSON Schema 2020-12 that the published schema uses; another one is an error of the test."""
    for keyword, told in schema.items():
        match keyword:
            case "$ref":
                yield from _mistakes(value, SCHEMA["$defs"][told.rpartition("/")[2]])
            case "type":
                if not isinstance(value, TYPES[told]):
                    yield f"{value!r} is no {told}"
            case "enum" | "const":
                if value not in (told if keyword == "enum" else [told]):
                    yield f"{value!r} is none of {told}"
            case "anyOf":
                if not any(fits(value, each) for each in told):
                    yield f"{value!r} fits none"
            case "allOf":
                for each in told:
                    yield from _mistakes(value, each)
            case "if":
                branch = "then" if fits(value, told) else "else"
                yield from _mistakes(value, schema.get(branch, {}))
            case "items":
                for each in value:
                    yield from _mistakes(each, told)
            case "required":
                yield from (f"no {key}" for key in told if key not in value)
            case "propertyNames":
                for key in value:
                    yield from _mistakes(key, told)
            case "properties":
                for key in told.keys() & value.keys():
                    yield from _mistakes(value[key], told[key])
            case "additionalProperties":
                for key in value.keys() - schema.get("properties", {}).keys():
                    if told is False:
                        yield f"{key} is not known"
                    else:
                        yield from _mistakes(value[key], told)
            case "then" | "else":
                continue
            case _:
                assert keyword in KNOWN, keyword


@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_shipped_ones_fit(name: str) -> None:
    assert list(_mistakes(yaml.safe_load(shipped()[name]), SCHEMA)) == []


def test_what_a_site_extends_fits() -> None:
    assert list(_mistakes(yaml.safe_load(OWN), SCHEMA)) == []


@pytest.mark.parametrize(
    ("text", "pattern", "new"),
    [
        (GOOD, "start: first", "begin: first"),
        (GOOD, "title: Tiny\n", ""),
        (GOOD, "reading: progress", "reading: progres"),
        (GOOD, ", unknown: second}", "}"),
        (GOOD, "moving: fine", "moves: fine"),
        (GOOD, "ending: nothing-wrong", "ending: fine"),
        (GOOD, "command: exclude", "command: reboot"),
        (OWN, "extends: hang", "extends: hung"),
        (OWN, "extends: hang\n", ""),
        (OWN, "ask:", "asks:"),
        (OWN, "      gone: ours\n", ""),
        (OWN, "reading: alive", "reading: progress"),
    ],
)
def test_mistakes_do_not_fit(text: str, pattern: str, new: str) -> None:
    changed = re.sub(re.escape(pattern), new, text)
    assert changed != text
    assert not fits(yaml.safe_load(changed), SCHEMA)


def test_the_command_prints_it() -> None:
    argv = [str(Path(sys.executable).with_name("oncall")), "schema", "playbook"]
    assert json.loads(subprocess.run(argv, capture_output=True, check=True, timeout=30).stdout) == SCHEMA
