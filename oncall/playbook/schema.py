"""The JSON Schema of a playbook for editors: a whole one, or one that extends a shipped one."""

from typing import Any

import msgspec

from oncall.playbook.loader import shipped
from oncall.playbook.model import Playbook
from oncall.readings.registry import READINGS, Reading

Schema = dict[str, Any]


def playbook_schema() -> Schema:
    """JSON Schema 2020-12 of a playbook file.

    A file without `extends` is whole. One with it names a shipped playbook, and any other key may be left out. A step's
    reading decides which branches it has to have, and there are no others.
    """
    schema: Schema = msgspec.json.schema(Playbook)
    parts = schema["$defs"]
    whole = parts["Playbook"]
    extends = {"enum": sorted(shipped()), "description": "the shipped playbook that this one changes"}
    parts["Extension"] = {
        **whole,
        "title": "Extension",
        "description": "What differs from a shipped playbook: keys at the top, whole steps and conclusions by name.",
        "properties": {"extends": extends, **whole["properties"]},
        "required": ["extends"],
    }
    step = parts["Step"]
    step["properties"]["reading"] = {"enum": sorted(READINGS)}
    step["allOf"] = [_branches(reading) for reading in READINGS.values()]
    del schema["$ref"]
    either = {
        "if": {"required": ["extends"]},
        "then": {"$ref": "#/$defs/Extension"},
        "else": {"$ref": "#/$defs/Playbook"},
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **either, **schema}


def _branches(reading: Reading) -> Schema:
    """One branch for each verdict of the reading."""
    each = {
        "properties": {
            "branches": {"propertyNames": {"enum": list(reading.verdicts)}, "required": list(reading.verdicts)}
        }
    }
    return {"if": {"properties": {"reading": {"const": reading.name}}}, "then": each}
