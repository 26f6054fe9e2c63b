"""Routes under /openai/v1: the same checks as other routes, with errors in the form that OpenAI's clients know."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import ConfigDict

from artiway.errors import ArtiwayError
from artiway.platform import http, streams

BASE = "/openai/v1"
UNKNOWN_FIELD = "Extra inputs are not permitted"
# Names that our own rules use for fields of a chat request.
_FIELDS = {"maxTokens": "max_tokens", "input.text": "messages"}
# What pydantic adds to the place of a fault inside a choice of types.
_CHOICE = re.compile(r"str|list\[.*\]|[A-Z]\w*Body")
_TYPES = {
    HTTPStatus.PAYMENT_REQUIRED: "insufficient_quota",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}
_CODES = {
    HTTPStatus.UNAUTHORIZED: "invalid_api_key",
    HTTPStatus.PAYMENT_REQUIRED: "insufficient_quota",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_exceeded",
}
_OWN_CODES = {
    "GEN_404_MODEL": "model_not_found",
    "GEN_404_SERVICE": "model_not_found",
    "GEN_422_PROMPT_TOO_LARGE": "context_length_exceeded",
    "REQUEST_404_NO_ROUTE": "unknown_url",
    "REQUEST_405_METHOD": "method_not_supported",
}


class OpenAiWire(http.Wire):
    """A JSON object of OpenAI's API: names as they are, unknown fields refused."""

    model_config = ConfigDict(alias_generator=None, extra="forbid", frozen=True, defer_build=True)


class OpenAiApi(streams.StreamApi):
    base = BASE
    invalid_status = HTTPStatus.BAD_REQUEST
    error_schema: Mapping[str, Any] = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message", "type", "param", "code"],
                "properties": {
                    "message": {"type": "string"},
                    "type": {"type": "string"},
                    "param": {"type": ["string", "null"], "description": "the field that is not valid"},
                    "code": {"type": ["string", "null"]},
                },
            }
        },
    }

    def rendered(self, error: ArtiwayError, request_id: str) -> dict[str, Any]:
        answer = http.rendered(error, request_id)
        body = json.dumps(error_body(error), ensure_ascii=False, separators=(",", ":"))
        return {**answer, "statusCode": status_of(error), "body": body}


def status_of(error: ArtiwayError) -> int:
    """OpenAI answers 400 to a request that is not valid."""
    return HTTPStatus.BAD_REQUEST if error.status == HTTPStatus.UNPROCESSABLE_ENTITY else error.status


def error_body(error: ArtiwayError) -> dict[str, Any]:
    status, param, message = status_of(error), error.details.get("param"), error.message
    code = _OWN_CODES.get(error.code) or _CODES.get(HTTPStatus(status), error.code)
    fields = error.details.get("fields")
    if fields:
        # The deepest place says most: the others are of the choices that were not meant.
        fault = max(fields, key=lambda one: one["field"].count("."))
        param, message = _param(fault["field"]), str(fault["reason"])
        code = "invalid_value"
        if message == UNKNOWN_FIELD:
            code, message = "unknown_parameter", f"the field {param} is not supported"
        else:
            message = f"{param}: {message}"
    elif code == "context_length_exceeded":
        param = "messages"
    kind = _TYPES.get(HTTPStatus(status), "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _param(field: str) -> str:
    name = ".".join(part for part in field.split(".") if not _CHOICE.fullmatch(part))
    return _FIELDS.get(name, name)
