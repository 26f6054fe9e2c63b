"""One OpenAPI 3.1 document from the routes of all functions. Built by `make openapi`, served as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from artiway.errors import ArtiwayError, NotFound, Refused

_TITLE = "Artiway"
_METHODS = ("get", "post", "put", "patch", "delete")
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and body within 24 hours return the same answer; the request runs once. "
    "A key belongs to the user who sends it.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last event that was received; the answer starts after it.",
    "schema": {"type": "string", "maxLength": 200},
}
_HEADERS = {
    "X-Request-Id": ("string", "Names this request; quote it to support."),
    "X-Trace-Id": ("string", "One id from this request to the worker and back."),
    "RateLimit-Limit": ("integer", "Requests that fit into the bucket."),
    "RateLimit-Remaining": ("integer", "Requests that still fit."),
    "RateLimit-Reset": ("integer", "Seconds until the bucket is full again."),
    "Retry-After": ("integer", "Seconds after which the same request may pass."),
    "X-Next-Cursor": ("string", "The cursor of the next page, where there is one."),
}
_ALWAYS = ("X-Request-Id", "X-Trace-Id")
_LIMITED = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
_UNUSED = ("HTTPValidationError", "ValidationError", "ResponseValidationError")


class MethodNotAllowed(Refused):
    code = "REQUEST_405_METHOD"


def merged(apis: Iterable[Any]) -> dict[str, Any]:
    """The document of the whole API. `apis` are the `Api` objects of the functions."""
    from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer

    from artiway import __version__
    from artiway.platform.http import ErrorBody

    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": _TITLE,
            "version": __version__,
            "description": "Prepaid points, image tasks as DAGs of GPU steps, a fair share of the GPUs. "
            "`x-permission` names what each route needs.",
        },
        "servers": [{"url": "/"}],
        "paths": {},
        "components": {
            "schemas": {"ErrorBody": ErrorBody.model_json_schema(by_alias=True)},
            "headers": {
                name: {"description": text, "schema": {"type": kind}} for name, (kind, text) in _HEADERS.items()
            },
        },
    }
    operation_ids: set[str] = set()
    for api in apis:
        part = json.loads(
            api.resolver.get_openapi_json_schema(
                title=_TITLE, version=__version__, security_schemes={"bearer": HTTPBearer()}
            )
        )
        for path, operations in part["paths"].items():
            for operation in operations.values():
                # Two functions may use one name; clients need each id once.
                if (name := operation["operationId"]) in operation_ids:
                    operation["operationId"] = f"{api.area}_{name}"
                operation_ids.add(operation["operationId"])
            place = document["paths"].setdefault(path, {})
            if duplicate := place.keys() & operations.keys():
                raise ValueError(f"{path} is declared twice: {sorted(duplicate)}")
            place.update(operations)
        components = part.get("components", {})
        for name, schema in components.get("schemas", {}).items():
            known = document["components"]["schemas"].setdefault(name, schema)
            if known != schema and name not in _UNUSED:
                raise ValueError(f"two functions declare different schemas named {name}")
        document["components"].setdefault("securitySchemes", {}).update(components.get("securitySchemes", {}))
    for name in _UNUSED:
        document["components"]["schemas"].pop(name, None)
    for operations in document["paths"].values():
        for method, operation in operations.items():
            if operation["tags"] == ["openai"]:  # OpenAI answers 400 to a request that is not valid
                operation["responses"].pop("422", None)
            operation["responses"].get("204", {}).pop("content", None)
            if also := operation.pop("x-also", None):
                success = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
                success["content"][also] = {"schema": {"type": "object" if also == "application/yaml" else "string"}}
                success["headers"] = {"X-Next-Cursor": _header("X-Next-Cursor")}
            if accepts := operation.pop("x-accepts", None):
                kinds = {media: {"type": "object" if media == "application/json" else "string"} for media in accepts}
                operation["requestBody"] = {
                    "required": True,
                    "content": {media: {"schema": schema} for media, schema in kinds.items()},
                }
            if operation.get("x-idempotent"):
                operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
            if method == "get" and any(
                "text/event-stream" in answer.get("content", {}) for answer in operation["responses"].values()
            ):
                operation.setdefault("parameters", []).append(_LAST_EVENT_ID)
            _add_headers(operation)
            _share_errors(operation, document["components"].setdefault("responses", {}))
    document["paths"] = dict(sorted(document["paths"].items()))
    document["components"]["schemas"] = dict(sorted(document["components"]["schemas"].items()))
    return document


def _add_headers(operation: dict[str, Any]) -> None:
    """A 401 has no rate limit headers: without an identity there is no bucket."""
    is_limited = operation["x-permission"] != "public"
    for status, answer in operation["responses"].items():
        names = [*_ALWAYS, *(_LIMITED if is_limited and status != "401" else ())]
        names += ["Retry-After"] if status in {"429", "503"} else []
        answer.setdefault("headers", {}).update({name: _header(name) for name in names})


def _share_errors(operation: dict[str, Any], shared: dict[str, Any]) -> None:
    """Many routes have the same errors, so each error response is written once."""
    kind = "Public" if operation["x-permission"] == "public" else ""
    if operation["tags"] == ["openai"]:  # their errors have OpenAI's form
        kind = "OpenAi"
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            continue
        name = f"{kind}Error{status}"
        if shared.setdefault(name, answer) != answer:
            name = f"Brief{name}"
            shared.setdefault(name, answer)
        operation["responses"][status] = {"$ref": f"#/components/responses/{name}"}


def _header(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{name}"}


def text() -> str:
    """The document that `make openapi` wrote."""
    return (files("artiway") / "openapi.json").read_text("utf-8")


def explain_missing(method: str, path: str) -> ArtiwayError:
    """A path that exists for other methods is 405 with `Allow`; one that does not is 404."""
    parts = path.strip("/").split("/")
    allowed = sorted(
        name.upper()
        for template, operations in json.loads(text())["paths"].items()
        if _matches(template.strip("/").split("/"), parts)
        for name in operations
        if name in _METHODS
    )
    if allowed:
        return MethodNotAllowed(f"{method} is not for this path", allow=allowed)
    return NotFound("there is no such route", code="REQUEST_404_NO_ROUTE", method=method, path=path[:200])


def _matches(template: list[str], parts: list[str]) -> bool:
    return len(template) == len(parts) and all(
        wanted.startswith("{") or wanted == part for wanted, part in zip(template, parts, strict=True)
    )


def page() -> str:
    """Swagger UI with everything inside it, so that it works behind any firewall."""
    from aws_lambda_powertools.event_handler.openapi import swagger_ui

    folder = files(swagger_ui)
    return swagger_ui.generate_swagger_html(
        spec=text().replace("</", "<\\/"),
        swagger_js=(folder / "swagger-ui-bundle.min.js").read_text("utf-8"),
        swagger_css=(folder / "swagger-ui.min.css").read_text("utf-8"),
        swagger_base_url="",
        oauth2_config=None,
        persist_authorization=True,
    )
