"""What an attacker tries, made from the OpenAPI document: every route is attacked on the day it appears."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

DOCUMENT: dict[str, Any] = json.loads((files("artiway") / "openapi.json").read_text("utf-8"))
METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    spec: dict[str, Any]

    @property
    def permission(self) -> str:
        return str(self.spec["x-permission"])

    @property
    def parameters(self) -> list[str]:
        return [one["name"] for one in self.spec.get("parameters", []) if one["in"] == "path"]

    @property
    def body(self) -> Any:
        """The least that the route accepts as a body; None where it takes none."""
        content = self.spec.get("requestBody", {}).get("content", {}).get("application/json")
        return None if content is None else least(content["schema"])

    def at(self, **values: str) -> str:
        """The path under the base, with every parameter filled in."""
        path = self.path.removeprefix("/api/v1")
        for name in self.parameters:
            path = path.replace(f"{{{name}}}", values.get(name, "x"))
        return path

    def __str__(self) -> str:
        return f"{self.method} {self.path.removeprefix('/api/v1')}"


def operations(base: str = "/api/v1/") -> list[Operation]:
    """Those under /openai/v1 have another form of errors."""
    return [
        Operation(method.upper(), path, spec)
        for path, methods in DOCUMENT["paths"].items()
        for method, spec in methods.items()
        if method in METHODS and path.startswith(base)
    ]


def least(schema: dict[str, Any]) -> Any:
    """The smallest value that a schema of ours accepts."""
    if "$ref" in schema:
        return least(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for words in ("anyOf", "oneOf", "allOf"):
        if words in schema:
            return least(schema[words][0])
    match schema.get("type"):
        case "object":
            return {name: least(schema["properties"][name]) for name in schema.get("required", [])}
        case "array":
            return [least(schema["items"])] * schema.get("minItems", 0)
        case "integer" | "number":
            return int(max(schema.get("minimum", 1), schema.get("exclusiveMinimum", 0) + 1))  # the document says 1.0
        case "boolean":
            return False
        case "string" if schema.get("format") == "date-time":
            return "2030-01-01T00:00:00Z"
        case "string" if "://" in schema.get("pattern", ""):
            return "https://example.com/"
        case "string":
            return "x" * max(2, schema.get("minLength", 0))
    return {}


def altered(token: str, *, header: dict[str, Any] | None = None, claims: dict[str, Any] | None = None) -> bytes:
    """What is signed of a token, with other words in it."""
    parts = token.split(".")[:2]
    words = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in parts]
    changes = zip(words, (header or {}, claims or {}), strict=True)
    return b".".join(encoded(json.dumps({**word, **new}).encode()) for word, new in changes)


def encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
