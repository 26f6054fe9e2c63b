"""Each value of a body is what it is, and each field has one name: over every route of the document that takes one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from pydantic.alias_generators import to_snake

from artiway.platform import http
from tests.e2e.attacks import DOCUMENT, Operation, least, operations
from tools.openapi import apis

Schema = dict[str, Any]
Place = tuple[str | int, ...]
WITH_BODY = [operation for operation in operations() if operation.body is not None]


def resolved(schema: Schema) -> Schema:
    """Without its reference, and without the null that an optional value may be."""
    if "$ref" in schema:
        return resolved(DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return resolved(next(one for one in schema["anyOf"] if one.get("type") != "null"))
    return schema


def places(schema: Schema, place: Place = ()) -> Iterator[tuple[Place, Schema]]:
    """Every value that a body may hold, by its place."""
    schema = resolved(schema)
    yield place, schema
    for name, part in schema.get("properties", {}).items():
        yield from places(part, (*place, name))
    if schema.get("type") == "array":
        yield from places(schema["items"], (*place, 0))
    if isinstance(schema.get("additionalProperties"), dict):
        names = schema.get("propertyNames", {}).get("enum", ["x"])
        yield from places(schema["additionalProperties"], (*place, names[0]))


def body_with(schema: Schema, place: Place, value: Any) -> Any:
    """The least body that has this value at this place."""
    if not place:
        return value
    schema, step = resolved(schema), place[0]
    if schema.get("type") == "array":
        return [body_with(schema["items"], place[1:], value)]
    part = schema.get("properties", {}).get(step) or schema["additionalProperties"]
    return {**least(schema), step: body_with(part, place[1:], value)}


def of(operation: Operation) -> Schema:
    return resolved(operation.spec["requestBody"]["content"]["application/json"]["schema"])


NUMBERS = [
    (operation, place)
    for operation in WITH_BODY
    for place, schema in places(of(operation))
    if schema.get("type") == "integer"
]
FLAGS = [
    (operation, place)
    for operation in WITH_BODY
    for place, schema in places(of(operation))
    if schema.get("type") == "boolean"
]
CHOICES = [
    (operation, place)
    for operation in WITH_BODY
    for place, schema in places(of(operation))
    if schema.get("type") == "string" and "enum" in schema
]
NAMES = [
    (operation, place)
    for operation in WITH_BODY
    for place, _ in places(of(operation))
    if place and isinstance(place[-1], str) and to_snake(place[-1]) != place[-1]
]


def label(value: Any) -> str:
    return ".".join(map(str, value)) if isinstance(value, tuple) else str(value)


@pytest.fixture(scope="module")
def handlers() -> dict[str, http.Api]:
    """By route; the authorizer's word is enough, so that nothing but the body is looked at."""
    found = {}
    for api in apis().values():
        api.access_check = None
        found |= dict.fromkeys(api.rules, api)
    return found


def refusals(handlers: dict[str, http.Api], operation: Operation, body: Any) -> dict[str, str]:
    """The fields that were refused, and why. Empty: the body was not what was refused."""
    ids = {"tenantId": str(uuid4()), "userId": str(uuid4()), "permissions": operation.permission}
    route = f"{operation.method} {operation.path}"
    event = {
        "version": "2.0",
        "routeKey": route,
        "rawPath": f"/api/v1{operation.at()}",
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {
            "http": {"method": operation.method, "path": f"/api/v1{operation.at()}", "sourceIp": "192.0.2.1"},
            "stage": "$default",
            "requestId": "r",
            "authorizer": {"lambda": ids},
        },
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }
    answer = handlers[route].handler(event, None)
    details = json.loads(answer["body"]).get("details", {})
    if answer["statusCode"] != 422:
        return {}
    return {problem["field"]: problem["reason"] for problem in details.get("fields", [])}


@pytest.mark.parametrize("value", ["5", True, 5.0], ids=["text", "true", "fraction"])
@pytest.mark.parametrize(("operation", "place"), NUMBERS, ids=label)
def test_only_number_is_taken_for_number(handlers, operation, place, value):
    assert label(place) in refusals(handlers, operation, body_with(of(operation), place, value))


@pytest.mark.parametrize("value", ["true", 1], ids=["text", "number"])
@pytest.mark.parametrize(("operation", "place"), FLAGS, ids=label)
def test_only_boolean_is_taken_for_boolean(handlers, operation, place, value):
    assert label(place) in refusals(handlers, operation, body_with(of(operation), place, value))


@pytest.mark.parametrize(("operation", "place"), CHOICES, ids=label)
def test_only_listed_value_is_taken_for_choice(handlers, operation, place):
    assert label(place) in refusals(handlers, operation, body_with(of(operation), place, "URGENT"))


@pytest.mark.parametrize("route", ["POST /tasks", "POST /flows", "POST /tasks/estimate"])
def test_priority_of_task_is_choice(route):
    assert (route, ("priority",)) in {(str(operation), place) for operation, place in CHOICES}


@pytest.mark.parametrize(("operation", "place"), NAMES, ids=label)
def test_field_has_no_second_name(handlers, operation, place):
    *parents, name = place
    schema = of(operation)
    holder = next(part for known, part in places(schema) if known == tuple(parents))
    fields = {**least(holder), name: least(holder["properties"][name])}
    fields[to_snake(name)] = fields.pop(name)
    found = refusals(handlers, operation, body_with(schema, tuple(parents), fields))
    assert found[label((*parents, to_snake(name)))] == "Extra inputs are not permitted"


@pytest.mark.parametrize("operation", WITH_BODY, ids=label)
def test_fullest_documented_body_is_accepted(handlers, operation):
    """Times, days and words: the fullest body that the document describes is one that its route reads."""

    def full(schema: Schema) -> Any:
        schema = resolved(schema)
        if "properties" in schema:
            return {name: full(part) for name, part in schema["properties"].items()}
        if schema.get("type") == "array":
            return [full(schema["items"])]
        return "https://example.com/" if "://" in schema.get("pattern", "") else least(schema)

    route = f"{operation.method} {operation.path}"
    http.parsed_body(handlers[route]._handlers[route], json.dumps(full(of(operation))))


def test_document_has_numbers_flags_and_names_to_try():
    assert len(NUMBERS) > 5
    assert FLAGS
    assert len(NAMES) > 20
