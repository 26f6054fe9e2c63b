"""Adds to the OpenAPI document what the routes do not say: descriptions, error codes, examples, parameters per tool.

Examples are made from the schemas, with values from openapi_text.toml, so that a new route has one too. A test
validates each against its schema.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

TEXT = Path(__file__).with_suffix(".toml")
BASE = "/api/v1"
AT = "2026-11-18T01:00:00Z"
# Codes that any operation with the status can answer with.
COMMON = {
    "401": ["AUTH_401_TOKEN_INVALID", "AUTH_401_TOKEN_EXPIRED", "AUTH_401_SIGNATURE_INVALID"],
    "402": ["POINTS_402_INSUFFICIENT"],
    "403": ["AUTH_403_FORBIDDEN", "TENANT_403_SUSPENDED"],
    "404": ["REQUEST_404_NOT_FOUND"],
    "409": ["REQUEST_409_CONFLICT"],
    "413": ["REQUEST_413_TOO_LARGE"],
    "415": ["REQUEST_415_MEDIA_TYPE"],
    "422": ["REQUEST_422_INVALID"],
    "429": ["RATE_429_LIMITED"],
    "500": ["PLATFORM_500_INTERNAL"],
    "503": ["PLATFORM_503_DATABASE", "PLATFORM_503_UNAVAILABLE"],
}
# Statuses whose own codes say more than the common one.
_REPLACED = {"404", "409"}
_LONGEST = 8


@cache
def _text() -> dict[str, Any]:
    return tomllib.loads(TEXT.read_text("utf-8"))


def complete(document: dict[str, Any], tools: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """`tools` has the JSON Schema of each tool's parameters."""
    schemas = document["components"]["schemas"]
    for name, schema in tools.items():
        schemas[params_name(name)] = {**schema, "title": params_name(name), "description": f"params of {name}"}
    for body in ("SubmitBody", "ToolTaskShape"):
        if body in schemas:
            schemas[body]["properties"]["params"]["x-params-by-tool"] = {
                name: {"$ref": f"#/components/schemas/{params_name(name)}"} for name in tools
            }
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    examples = Examples(document["components"]["schemas"])
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            codes = error_codes(method, path, operation)
            operation["x-error-codes"] = codes
            operation["description"] = describe(operation, codes)
            for content in _contents(operation):
                content["example"] = examples.of(content["schema"])
            if (name := operation["operationId"]) in _text()["bodies"]:
                operation["requestBody"]["content"]["application/json"]["example"] = _text()["bodies"][name]
            for parameter in operation.get("parameters", []):
                if parameter.get("required"):
                    parameter["example"] = examples.of_parameter(name, parameter)
    return document


def params_name(tool: str) -> str:
    return "".join(part.capitalize() for part in tool.split("_")) + "Params"


def error_codes(method: str, path: str, operation: Mapping[str, Any]) -> dict[str, list[str]]:
    """The codes by status. A raw route follows WeChat's protocol, which knows only FAIL."""
    if operation["operationId"].startswith("receive_"):
        return {status: ["FAIL"] for status in sorted(operation["responses"]) if not status.startswith("2")}
    if path.startswith("/openai/"):
        known = _text()["openai_codes"]
        return {status: known[status] for status in sorted(operation["responses"]) if not status.startswith("2")}
    key = f"{method.upper()} {path.removeprefix(BASE)}"
    own = [code for rule in _text()["codes"] if re.search(rule["match"], key) for code in rule["codes"]]
    found: dict[str, list[str]] = {}
    for status in sorted(operation["responses"]):
        if status.startswith("2"):
            continue
        mine = [code for code in own if code.split("_")[1] == status]
        common = [] if mine and status in _REPLACED else COMMON.get(status, [])
        if status == "401" and operation["x-permission"] == "public":
            common = []
        if status == "403" and operation["x-permission"] == "public":
            common = ["EDGE_403_DIRECT"]
        keyed = []
        if operation.get("x-idempotent"):
            keyed = {"409": ["IDEM_409_IN_PROGRESS"], "422": ["IDEM_422_KEY_REUSED"]}.get(status, [])
        found[status] = list(dict.fromkeys([*mine, *common, *keyed]))
    return found


def describe(operation: Mapping[str, Any], codes: Mapping[str, list[str]]) -> str:
    permission = operation["x-permission"]
    need = {"public": "Open to all.", "user": "For any logged-in user."}.get(permission, f"Needs `{permission}`.")
    parts = [operation["summary"], _text()["texts"].get(operation["operationId"], ""), need]
    if operation.get("x-idempotent"):
        parts.append("Repeating it with the same `Idempotency-Key` is safe.")
    listed = "; ".join(f"{status} {', '.join(f'`{code}`' for code in names)}" for status, names in codes.items())
    return " ".join(part for part in parts if part) + f"\n\nErrors: {listed}."


def _contents(operation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The JSON of the request and of the success."""
    success = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
    for content in (operation.get("requestBody", {}).get("content", {}), success.get("content", {})):
        if "application/json" in content:
            yield content["application/json"]


class Examples:
    """A value of a schema: complete for answers, the required fields and those with a known value for requests."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas

    def of(self, schema: Mapping[str, Any], *, owner: str = "", name: str = "", depth: int = 0) -> Any:
        values = _text()["values"]
        if f"{owner}.{name}" in values:
            return values[f"{owner}.{name}"]
        if "$ref" in schema:
            title = schema["$ref"].rpartition("/")[2]
            return self.of(self._schemas[title], owner=title, name=name, depth=depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return values[name] if values.get(name) in schema["enum"] else schema["enum"][0]
        for kind in ("anyOf", "oneOf"):
            if kind in schema:
                if name in _text()["nulls"]["fields"] and {"type": "null"} in schema[kind]:
                    return None
                return self.of(_chosen(schema[kind]), owner=owner, name=name, depth=depth)
        if schema.get("type") == "object" or "properties" in schema:
            return self._object(schema, owner, depth)
        if schema.get("type") == "array":
            item = self.of(schema.get("items", {}), name=_singular(name), depth=depth + 1)
            return [item] * max(1, int(schema.get("minItems", 1))) if depth < _LONGEST else []
        return self._scalar(schema, name)

    def of_parameter(self, operation: str, parameter: Mapping[str, Any]) -> Any:
        known, name = _text()["parameters"], parameter["name"]
        if (found := known.get(f"{operation} {name}", known.get(name))) is not None:
            return found
        first, *others = name.split("_")
        return self.of(parameter["schema"], name=first + "".join(part.capitalize() for part in others))

    def _object(self, schema: Mapping[str, Any], owner: str, depth: int) -> Any:
        if "properties" not in schema:
            more = schema.get("additionalProperties")
            if isinstance(more, dict) and more.get("type") in {"string", "integer"} and depth < _LONGEST:
                return {"en": self._scalar(more, "")}
            return {}
        required = set(schema.get("required", []))
        names = [name for name in schema["properties"] if name in required or f"{owner}.{name}" in _text()["values"]]
        return {name: self.of(schema["properties"][name], owner=owner, name=name, depth=depth + 1) for name in names}

    def _scalar(self, schema: Mapping[str, Any], name: str) -> Any:
        known = _text()["values"].get(name)
        match schema.get("type"):
            case "string" if schema.get("format") == "date-time":
                return AT
            case "string" if schema.get("format") == "date":
                return AT[:10]
            case "string":
                text = known if isinstance(known, str) else name or "text"
                return text[: int(schema.get("maxLength", 1_000))].ljust(int(schema.get("minLength", 0)), "x")
            case "integer" | "number":
                number = known if isinstance(known, int) and not isinstance(known, bool) else 1
                low, high = schema.get("minimum", number), schema.get("maximum", number)
                return int(min(max(number, low, schema.get("exclusiveMinimum", low - 1) + 1), high))
            case "boolean":
                return False
            case "null":
                return None
        return known


def _chosen(choices: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The first that is not null."""
    return next((one for one in choices if one.get("type") != "null"), choices[0])


def _singular(name: str) -> str:
    return name.removesuffix("s")
