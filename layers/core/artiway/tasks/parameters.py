"""Checks values against the catalogue's JSON Schema: the keywords that the catalogue uses, and no others.

The platform and the workers use this one file, so it imports the standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
}
ROUNDING = 1e-6
KEYWORDS = frozenset(
    {
        "type",
        "enum",
        "const",
        "minimum",
        "maximum",
        "maxLength",
        "pattern",
        "items",
        "prefixItems",
        "minItems",
        "maxItems",
    }
    | {"anyOf", "default", "description", "format"}
)


def together(params: Mapping[str, Any], schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """A JSON Schema that matches these values together; an absent parameter counts with its default."""
    return {
        "properties": {name: {"const": value} for name, value in params.items()},
        "required": [name for name, value in params.items() if schemas[name].get("default") != value],
    }


def is_refused(refused: Mapping[str, Any], params: Mapping[str, Any], schemas: Mapping[str, Schema]) -> bool:
    """Whether these parameters, with defaults for absent ones, are a combination that the step refuses."""
    return all(params.get(name, schemas[name].get("default")) == value for name, value in refused.items())


def fault(schema: Schema, value: Any) -> str:
    """Why the value is not valid; empty if it is valid."""
    if "anyOf" in schema:
        faults = [fault(one, value) for one in schema["anyOf"]]
        return "" if "" in faults else " or ".join(faults)
    if not _TYPES[schema["type"]](value):
        return f"not of type {schema['type']}"
    if "const" in schema and value != schema["const"]:
        return f"not {schema['const']}"
    if "enum" in schema and value not in schema["enum"]:
        return f"not one of {', '.join(schema['enum'])}"
    match value:
        case str():
            return _text_fault(schema, value)
        case list():
            return _list_fault(schema, value)
        case bool():
            return ""
        case _:
            return _number_fault(schema, value)


def _text_fault(schema: Schema, value: str) -> str:
    if len(value) > schema.get("maxLength", len(value)):
        return f"longer than {schema['maxLength']} characters"
    # fullmatch, because Python's $ also matches before a final line break, unlike ECMAScript's.
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        return f"does not match {schema['pattern']}"
    return ""


def _number_fault(schema: Schema, value: float) -> str:
    if not math.isfinite(value):
        return "not a number"
    if "minimum" in schema and value < schema["minimum"]:
        return f"less than {schema['minimum']}"
    if "maximum" in schema and value > schema["maximum"]:
        return f"more than {schema['maximum']}"
    return ""


def _list_fault(schema: Schema, value: list[Any]) -> str:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        return f"{len(value)} items; {schema.get('minItems', 0)} to {schema.get('maxItems', 'any number')} are allowed"
    for position, item in enumerate(value):
        places = schema.get("prefixItems")
        if reason := fault(places[position] if places else schema["items"], item):
            return f"item {position}: {reason}"
    return _box_fault(value) if schema.get("format") == "box" else ""


def _box_fault(box: list[Any]) -> str:
    """`[x, y, width, height]` lies inside the picture, as far as numbers of this kind can be added."""
    x, y, width, height = box
    if width <= 0 or height <= 0:
        return "[x, y, width, height] has no area"
    if x + width > 1 + ROUNDING or y + height > 1 + ROUNDING:
        return "[x, y, width, height] leaves the picture: x + width and y + height are at most 1"
    return ""
