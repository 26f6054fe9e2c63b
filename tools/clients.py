"""Writes the generated parts of the Python and TypeScript clients from the OpenAPI document: `make clients`.

Generated is what the document knows: the types of bodies and one method per operation. What it does not know (retries,
uploads, streams, paging, signatures) is written by hand beside it.
"""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "layers/core/artiway/openapi.json"
PYTHON = ROOT / "clients/python/artiway_client"
TYPESCRIPT = ROOT / "clients/typescript/src"
BASE = "/api/v1"
HEADER = "Generated from the OpenAPI document by `make clients`. Do not edit."
WIDTH = 116
# A client does not call them: pages for a browser, and the notifications that WeChat sends.
LEFT_OUT = {"get_docs", "receive_payment", "receive_refund"}
_REF = "#/components/schemas/"


@dataclass(frozen=True)
class Parameter:
    name: str
    schema: Mapping[str, Any]
    is_required: bool


@dataclass(frozen=True)
class Operation:
    """One operation that answers with one body, as both clients need it."""

    name: str
    method: str
    path: str
    summary: str
    permission: str
    path_names: tuple[str, ...]
    query: tuple[Parameter, ...]
    body: Mapping[str, Any] | None
    takes_yaml: bool
    answer: Mapping[str, Any] | None
    is_text: bool
    is_keyed: bool

    @property
    def is_list(self) -> bool:
        return any(one.name == "cursor" for one in self.query)


@dataclass(frozen=True)
class Document:
    schemas: Mapping[str, Mapping[str, Any]]
    operations: tuple[Operation, ...] = field(default=())

    @classmethod
    def read(cls, path: Path = DOCUMENT) -> Document:
        found = json.loads(path.read_text("utf-8"))
        return cls(found["components"]["schemas"], tuple(_operations(found)))


def _operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        if not path.startswith(f"{BASE}/"):
            continue
        for method, one in methods.items():
            success = next(answer for status, answer in one["responses"].items() if status.startswith("2"))
            content = success.get("content", {})
            if one["operationId"] in LEFT_OUT or "text/event-stream" in content:
                continue
            request = one.get("requestBody", {})
            accepted = request.get("content", {})
            parameters = one.get("parameters", [])
            yield Operation(
                name=one["operationId"],
                method=method.upper(),
                path=path.removeprefix(BASE),
                summary=one["summary"],
                permission=one["x-permission"],
                path_names=tuple(re.findall(r"{(\w+)}", path)),
                query=tuple(
                    Parameter(p["name"], p["schema"], bool(p.get("required"))) for p in parameters if p["in"] == "query"
                ),
                body=accepted["application/json"].get("schema") if "application/json" in accepted else None,
                takes_yaml="application/yaml" in accepted,
                answer=_first(content["application/json"]["schema"]) if "application/json" in content else None,
                is_text=bool(content) and "application/json" not in content,
                is_keyed=any(p["name"] == "Idempotency-Key" for p in parameters),
            )


def _first(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A list that can also be CSV is declared as either; clients read JSON."""
    choices: list[Mapping[str, Any]] = schema.get("anyOf", [])
    return choices[0] if choices and "$ref" in choices[0] else schema


def _words(camel: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", camel).lower()
    return f"{snake}_" if keyword.iskeyword(snake) else snake


def _camel(snake: str) -> str:
    first, *rest = snake.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    required = set(schema.get("required", []))
    for name, one in schema.get("properties", {}).items():
        yield name, one, name in required


# ---------------------------------------------------------------- Python


def python_type(schema: Mapping[str, Any], prefix: str = "") -> str:
    if "$ref" in schema:
        return prefix + str(schema["$ref"]).removeprefix(_REF)
    if "const" in schema:
        return f"Literal[{json.dumps(schema['const'])}]"
    if "enum" in schema:
        return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
    for kind in ("anyOf", "oneOf"):
        if kind in schema:
            return " | ".join(dict.fromkeys(python_type(one, prefix) for one in schema[kind]))
    match schema.get("type"):
        case "string":
            return "str"
        case "integer":
            return "int"
        case "number":
            return "float"
        case "boolean":
            return "bool"
        case "null":
            return "None"
        case "array":
            return f"list[{python_type(schema.get('items', {}), prefix)}]"
        case "object":
            more = schema.get("additionalProperties")
            return f"dict[str, {python_type(more, prefix) if isinstance(more, dict) else 'Any'}]"
    return "Any"


def python_models(document: Document) -> str:
    lines = [f'"""{HEADER}"""', "", "from __future__ import annotations", ""]
    lines += ["from typing import Any, Literal, NotRequired, TypedDict", ""]
    aliases = [(name, one) for name, one in document.schemas.items() if "properties" not in one]
    for name, schema in aliases:
        lines += _wrapped_alias(name, python_type(schema))
    for name, schema in document.schemas.items():
        if "properties" not in schema:
            continue
        fields = [
            (key, python_type(one) if is_required else f"NotRequired[{python_type(one)}]", one.get("description"))
            for key, one, is_required in _properties(schema)
        ]
        if any(keyword.iskeyword(key) or not key.isidentifier() for key, _, _ in fields):
            lines += ["", "", f"{name} = TypedDict(", f'    "{name}",', "    {"]
            lines += [f"        {key!r}: {kind!r}," for key, kind, _ in fields]
            lines += ["    },", ")"]
            continue
        lines += ["", "", f"class {name}(TypedDict):"]
        if not fields:
            lines.append("    pass")
        for key, kind, about in fields:
            lines += [f"    # {part}" for part in textwrap.wrap(about or "", WIDTH - 6)]
            lines.append(f"    {key}: {kind}")
    return "\n".join(lines) + "\n"


def _wrapped_alias(name: str, kind: str) -> list[str]:
    if len(name) + len(kind) + 3 <= WIDTH or not kind.startswith("Literal["):
        return [f"{name} = {kind}"]
    values = kind.removeprefix("Literal[").removesuffix("]").split(", ")
    return [f"{name} = Literal[", *(f"    {value}," for value in values), "]"]


def python_operations(document: Document, *, is_async: bool) -> str:
    define, wait = ("async def", "await ") if is_async else ("def", "")
    name = "AsyncOperations" if is_async else "Operations"
    lines = [f'"""{HEADER}"""', "", "from __future__ import annotations", ""]
    lines += ["from abc import ABC, abstractmethod", "from typing import TYPE_CHECKING, Any, Literal, cast", ""]
    lines += ["from artiway_client.core import Call, path_part", "", "if TYPE_CHECKING:"]
    lines += ["    from artiway_client import models", "", "", f"class {name}(ABC):"]
    lines += ['    """One method per operation of the API; a body is a dict as the API takes it."""', ""]
    lines += ["    @abstractmethod", f"    {define} call(self, call: Call) -> Any:"]
    lines += ['        """Send a call, with retries, and return the parsed answer."""']
    for one in document.operations:
        lines += ["", *_python_method(one, define, wait)]
    return "\n".join(lines) + "\n"


def _python_method(one: Operation, define: str, wait: str) -> Iterator[str]:
    arguments = ["self", *(f"{_words(name)}: str" for name in one.path_names)]
    if one.body is not None:
        kind = "dict[str, Any] | str" if one.takes_yaml else python_type(one.body, "models.")
        arguments.append(f"body: {kind}" + (" = None" if "None" in kind.split(" | ") else ""))
    keywords = [
        f"{_words(p.name)}: {_optional(python_type(p.schema, 'models.'))} = None"
        if not p.is_required
        else f"{_words(p.name)}: {python_type(p.schema, 'models.')}"
        for p in one.query
    ]
    if one.is_keyed:
        keywords.append("idempotency_key: str | None = None")
    if keywords:
        arguments += ["*", *keywords]
    answer = "str" if one.is_text else "None" if one.answer is None else python_type(one.answer, "models.")
    signature = f"    {define} {one.name}({', '.join(arguments)}) -> {answer}:"
    if len(signature) <= WIDTH:
        yield signature
    else:
        yield f"    {define} {one.name}("
        yield from (f"        {argument}," for argument in arguments)
        yield f"    ) -> {answer}:"
    note = one.summary if one.permission in {"public", "user"} else f"{one.summary} Needs `{one.permission}`."
    if len(note) + 14 <= WIDTH:
        yield f'        """{note}"""'
    else:
        first, *rest = textwrap.wrap(note, WIDTH - 11)
        yield f'        """{first}'
        yield from (f"        {line}" for line in rest)
        yield '        """'
    path = re.sub(r"{(\w+)}", lambda found: f"{{path_part({_words(found[1])})}}", one.path)
    parts = [f'"{one.method}"', f'{"f" * bool(one.path_names)}"{path}"']
    if one.query:
        pairs = ", ".join(f'"{p.name}": {_words(p.name)}' for p in one.query)
        parts.append(f"query={{{pairs}}}")
    if one.body is not None:
        parts.append("body=body")
    if one.is_keyed:
        parts += ["is_keyed=True", "key=idempotency_key"]
    call = f"{wait}self.call(Call({', '.join(parts)}))"
    line = f"        {call}" if answer == "None" else f"        return cast({json.dumps(answer)}, {call})"
    yield line


def _optional(kind: str) -> str:
    return kind if "None" in kind.split(" | ") else f"{kind} | None"


# The plain client is the asynchronous one without its waits, so that both always do the same.
_PLAIN = (
    (r"asyncio\.to_thread\((pictures\.\w+), ", r"\1("),
    (r"\bawait ", ""),
    (r"\basync (def|for|with)\b", r"\1"),
    (r"^import asyncio$", "import threading"),
    (r"\basyncio\.Lock\b", "threading.Lock"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\bAsync(Client|Iterator|Operations)\b", r"\1"),
    (r"\basync_operations\b", "operations"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\ba(close|read|iter_lines)\b", r"\1"),
    (r"client for asyncio\.", f"client for plain code. {HEADER}"),
)


def python_client() -> str:
    text = (PYTHON / "async_client.py").read_text("utf-8")
    for pattern, plain in _PLAIN:
        text = re.sub(pattern, plain, text, flags=re.MULTILINE)
    return text.replace("import Iterator, Callable, Mapping", "import Callable, Iterator, Mapping")


# ---------------------------------------------------------------- TypeScript


def typescript_type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_REF)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for kind in ("anyOf", "oneOf"):
        if kind in schema:
            return " | ".join(dict.fromkeys(typescript_type(one) for one in schema[kind]))
    match schema.get("type"):
        case "string":
            return "string"
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
        case "null":
            return "null"
        case "array":
            item = typescript_type(schema.get("items", {}))
            return f"({item})[]" if " | " in item else f"{item}[]"
        case "object":
            more = schema.get("additionalProperties")
            return f"Record<string, {typescript_type(more) if isinstance(more, dict) else 'unknown'}>"
    return "unknown"


def typescript_models(document: Document) -> str:
    lines = [f"// {HEADER}"]
    for name, schema in document.schemas.items():
        if "properties" not in schema:
            lines += ["", f"export type {name} = {typescript_type(schema)};"]
            continue
        lines += ["", f"export interface {name} {{"]
        for key, one, is_required in _properties(schema):
            if about := one.get("description"):
                lines.append(f"  /** {_comment(about)} */")
            shown = key if key.isidentifier() else json.dumps(key)
            lines.append(f"  {shown}{'' if is_required else '?'}: {typescript_type(one)};")
        lines.append("}")
    lines += ["", "/** The parameters of each tool. */", "export interface ToolParams {"]
    by_tool = document.schemas["SubmitBody"]["properties"]["params"].get("x-params-by-tool", {})
    lines += [f"  {name}: {typescript_type(schema)};" for name, schema in by_tool.items()]
    return "\n".join([*lines, "}"]) + "\n"


def typescript_operations(document: Document) -> str:
    lines = [f"// {HEADER}", "", 'import { type Call, pathPart } from "./core.js";']
    lines += ['import type * as models from "./models.js";', ""]
    lines += ["/** One method per operation of the API. */", "export abstract class Operations {"]
    lines += ["  /** Send a call, with retries, and return the parsed answer. */"]
    lines += ["  abstract call<T>(call: Call): Promise<T>;"]
    for one in document.operations:
        lines += ["", *_typescript_method(one)]
    return "\n".join([*lines, "}"]) + "\n"


def _typescript_method(one: Operation) -> Iterator[str]:
    def typed(schema: Mapping[str, Any]) -> str:
        return re.sub(r"\b([A-Z]\w+)\b(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", _named, typescript_type(schema))

    arguments = [f"{_camel(name)}: string" for name in one.path_names]
    if one.body is not None:
        kind = "Record<string, unknown> | string" if one.takes_yaml else typed(one.body)
        arguments.append(f"body{'?' if ' | null' in kind else ''}: {kind.replace(' | null', '')}")
    if one.query:
        fields = "; ".join(f"{p.name}{'' if p.is_required else '?'}: {typed(p.schema)}" for p in one.query)
        is_optional = not any(p.is_required for p in one.query)
        arguments.append(f"query: {{ {fields} }}" + (" = {}" if is_optional else ""))
    if one.is_keyed:
        arguments.append("idempotencyKey?: string")
    answer = "string" if one.is_text else "void" if one.answer is None else typed(one.answer)
    note = one.summary if one.permission in {"public", "user"} else f"{one.summary} Needs `{one.permission}`."
    yield f"  /** {_comment(note)} */"
    yield f"  {_camel(one.name)}({', '.join(arguments)}): Promise<{answer}> {{"
    path = "`" + re.sub(r"{(\w+)}", lambda m: f"${{pathPart({_camel(m[1])})}}", one.path) + "`"
    parts = [f'method: "{one.method}"', f"path: {path if one.path_names else json.dumps(one.path)}"]
    if one.query:
        parts.append("query")
    if one.body is not None:
        parts.append("body")
    if one.is_keyed:
        parts += ["isKeyed: true", "key: idempotencyKey"]
    yield f"    return this.call({{ {', '.join(parts)} }});"
    yield "  }"


def _comment(text: str) -> str:
    """A cron expression in a description must not end the comment."""
    return text.replace("*/", "*\\/")


def _named(match: re.Match[str]) -> str:
    return match[1] if match[1] == "Record" else f"models.{match[1]}"


def files(document: Document) -> dict[Path, str]:
    """Path to text of every generated file."""
    return {
        PYTHON / "models.py": python_models(document),
        PYTHON / "operations.py": python_operations(document, is_async=False),
        PYTHON / "async_operations.py": python_operations(document, is_async=True),
        PYTHON / "client.py": python_client(),
        TYPESCRIPT / "models.ts": typescript_models(document),
        TYPESCRIPT / "operations.ts": typescript_operations(document),
    }


if __name__ == "__main__":
    for place, text in files(Document.read()).items():
        place.write_text(text, "utf-8")
